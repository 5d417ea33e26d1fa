#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/score_table.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "methods/transition_model.h"
#include "metrics/evaluation.h"
#include "metrics/nearest.h"

namespace slift::cli {

namespace fs = std::filesystem;

namespace {

// How many of the training trajectories the run's model has seen; 0 if there is no run to tell.
std::int64_t trained_on(const fs::path& run) {
  const fs::path model = run / "model.safetensors";
  return fs::exists(model) ? read_model_spec(model).data.value("members", std::int64_t{0}) : 0;
}

std::string describe(const NearestNeighbours& n) {
  std::string text = fmt::format(
      "nearest training trajectory: {:.2f} of its distance to the next, {:.1f} % copied",
      n.members.value, 100 * n.members.copied);
  if (!n.floor) return text + "\n";
  return text + fmt::format("; fresh truth {:.2f}, {:.1f} %: {}\n", n.floor->members.value,
                            100 * n.floor->members.copied,
                            n.floor->memorising() ? "MEMORISING" : "not memorising");
}

}  // namespace

void declare_evaluate(CLI::App& app) {
  struct Options {
    std::string run, truth, quantities, training, device = "cpu", out;
    std::int64_t training_members = 0;
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
  app.add_option("--quantities", o->quantities,
                 "TOML file of [[quantity]] tables: numbers of your own to compare");
  app.add_option("--training", o->training,
                 "Training trajectories: also look for copies of them (nearest neighbours)");
  app.add_option("--training-members", o->training_members,
                 "The first so many were trained on; default what the run says, else all")
      ->needs("--training")
      ->check(CLI::Range(2, std::numeric_limits<int>::max()));
  app.add_option("--device", o->device, "Of the search for copies: cpu or cuda")
      ->capture_default_str();
  app.add_option("--bootstrap", e.bootstrap, "Replicates for the intervals; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 10000));
  app.callback([o] {
    const TrajectoryReader generated(rollout_path(o->run)), truth(o->truth);
    require(o->training.empty() || generated.info().record.empty(),
            "--training: needs states, {} holds records (`slift rollout --no-states`)",
            generated.path());
    fs::path out = o->out;
    if (out.empty() && fs::is_directory(o->run)) out = fs::path(o->run) / "evaluation.json";
    require_not_input(out, {generated.path(), truth.path(), o->quantities, o->training,
                            fs::path(o->run) / "model.safetensors"});
    if (!o->quantities.empty()) o->evaluate.quantities = read_quantities(o->quantities);
    const Evaluation result = evaluate(generated, truth, o->evaluate);
    nlohmann::json json = result.to_json();
    std::string text = score_table(result);
    if (!o->training.empty()) {
      const TrajectoryReader training(o->training);
      const std::int64_t seen = o->training_members > 0
                                    ? o->training_members
                                    : std::min(trained_on(o->run), training.info().members);
      const NearestNeighbours nearest = nearest_neighbours(
          generated, training, &truth, {.device = o->device, .training_members = seen});
      json["nearest"] = nearest.to_json();
      text += describe(nearest);
    }
    if (!out.empty()) {
      try {
        write_file_atomically(out, to_text(json, 2) + "\n");
      } catch (const UserError&) {
        print_result(json, text);  // it took long to compute
        throw;
      }
      json["out"] = out.string();
    }
    print_result(json, text);
  });
}

}  // namespace slift::cli
