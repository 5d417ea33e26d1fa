#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/score_table.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "report/report.h"

namespace slift::cli {

namespace fs = std::filesystem;

namespace {

// A run folder, or a trajectory file in its place.
struct Contender {
  std::string label;
  fs::path folder, file;
};

std::vector<Contender> find_contenders(const std::vector<std::string>& names) {
  std::vector<Contender> found;
  for (const std::string& name : names) {
    const fs::path path = fs::path(name).lexically_normal();
    Contender c{path.stem().string(), "", rollout_path(name)};
    if (fs::is_directory(name)) {
      c.folder = path;
      c.label = (path.has_filename() ? path : path.parent_path()).filename().string();
    }
    for (const Contender& other : found) {
      require(other.label != c.label, "{}: there are two of the name {}", name, c.label);
    }
    found.push_back(std::move(c));
  }
  return found;
}

}  // namespace

void declare_compare(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string truth, quantities, out = "compare";
    EvaluateOptions evaluate;
  };
  auto o = std::make_shared<Options>();
  app.add_option("runs", o->runs, "Run folders with a rollout.h5, or trajectory files")->required();
  app.add_option("--truth,-t", o->truth, "True trajectories all are compared with")->required();
  app.add_option("--quantities", o->quantities,
                 "TOML file of [[quantity]] tables: numbers of your own to compare");
  app.add_option("--max-members", o->evaluate.max_members, "Compare at most so many members")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--out,-o", o->out, "Folder for compare.html and an evaluation of each")
      ->capture_default_str();
  app.callback([o] {
    const std::vector<Contender> contenders = find_contenders(o->runs);
    if (!o->quantities.empty()) o->evaluate.quantities = read_quantities(o->quantities);
    const TrajectoryReader truth(o->truth);
    const auto evaluation_file = [o](const Contender& c) {
      return fs::path(o->out) / (c.label + ".json");
    };
    // All are compared with as many members and states as the smallest has: floors and times are
    // the same then.
    EvaluateOptions& options = o->evaluate;
    options.max_steps = truth.info().steps;
    for (const Contender& c : contenders) {
      require_not_input(evaluation_file(c), {c.file, o->truth, o->quantities});
      const TrajectoryReader file(c.file);
      require(file.info().members >= 2, "{}: at least 2 members are needed, got {}", file.path(),
              file.info().members);
      options.max_members = std::min(options.max_members, file.info().members);
      options.max_steps = std::min(options.max_steps, file.info().steps);
    }
    std::vector<std::string> labels;
    std::vector<Evaluation> evaluations;
    std::vector<ReportRun> pages;
    nlohmann::json list = nlohmann::json::array();
    for (const Contender& c : contenders) {
      const fs::path file = evaluation_file(c);
      labels.push_back(c.label);
      evaluations.push_back(evaluate(TrajectoryReader(c.file), truth, options));
      const nlohmann::json json = evaluations.back().to_json();
      write_file_atomically(file, to_text(json, 2) + "\n");
      pages.push_back({c.label, c.folder, file});
      list.push_back(
          {{"label", c.label}, {"evaluation", file.string()}, {"scores", json["scores"]}});
    }
    const fs::path page = fs::path(o->out) / "compare.html";
    write_report(pages, page);
    print_result({{"out", page.string()}, {"truth", o->truth}, {"runs", list}},
                 comparison_table(labels, evaluations) + page.string());
  });
}

}  // namespace slift::cli
