#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "metrics/evaluation.h"

namespace slift::cli {
namespace {

std::string table(const Evaluation& e) {
  const auto row = [](const std::string& name, const DistanceOverTime& d) {
    return fmt::format("{:<28} {:>10.4g} {:>10.4g} {:>8.2f}\n", name, d.mean, d.floor_mean,
                       d.ratio());
  };
  std::string text =
      fmt::format("{:<28} {:>10} {:>10} {:>8}\n",
                  fmt::format("{} vs {} members", e.members, e.members), "value", "floor", "ratio");
  text +=
      row(e.quantity == "state" ? "sliced W2, mean over time" : "W2 of mean |x| (WIM)", e.sliced);
  if (e.has_intervals) {
    text += fmt::format("{:<28} {:>10} {:>10} {:>8}\n", "  95 % interval",
                        fmt::format("+-{:.2g}", e.mean_interval.high - e.sliced.mean),
                        fmt::format("+-{:.2g}", e.floor_interval.high - e.sliced.floor_mean),
                        fmt::format("+-{:.2g}", e.ratio_interval.high - e.sliced.ratio()));
  }
  if (e.crossing) {
    text += fmt::format("{:<28} {:>10.4g} {:>10.4g} {:>8.2f}\n", "W2 of crossing times (WCT)",
                        e.crossing->value, e.crossing->floor, e.crossing->ratio());
  }
  if (e.exact_points > 0) text += row(fmt::format("exact W2, {} points", e.exact_points), e.exact);
  return text;
}

}  // namespace

void declare_evaluate(CLI::App& app) {
  struct Options {
    std::string run, truth, generated, out;
    EvaluateOptions evaluate;
  };
  auto o = std::make_shared<Options>();
  EvaluateOptions& e = o->evaluate;
  app.add_option("run", o->run, "Run folder with a rollout.h5, or a trajectory file")->required();
  app.add_option(
         "--truth,-t", o->truth,
         "True trajectories: cut in two halves, one to compare with, the other for the floor")
      ->required();
  app.add_option("--out,-o", o->out, "JSON file to write; default RUN/evaluation.json");
  app.add_option("--max-members", e.max_members, "Compare at most so many members")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--directions", e.directions, "Directions of sliced W2")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--cuts", e.cuts, "Random cuts of the truth in two halves to average over")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--exact-points", e.exact_points, "Points of exact W2; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 2048));
  app.add_option("--bootstrap", e.bootstrap, "Replicates for the intervals; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 10000));
  app.callback([o] {
    namespace fs = std::filesystem;
    const bool folder = fs::is_directory(o->run);
    const fs::path generated = folder ? fs::path(o->run) / "rollout.h5" : fs::path(o->run);
    require(!folder || fs::exists(generated),
            "{}: holds no rollout.h5; `slift rollout {}` makes it", o->run, o->run);
    const Evaluation result =
        evaluate(TrajectoryReader(generated), TrajectoryReader(o->truth), o->evaluate);
    fs::path out = o->out;
    if (out.empty() && folder) out = fs::path(o->run) / "evaluation.json";
    nlohmann::json json = result.to_json();
    if (!out.empty()) {
      write_file_atomically(out, json.dump(2) + "\n");
      json["out"] = out.string();
    }
    print_result(json, table(result));
  });
}

}  // namespace slift::cli
