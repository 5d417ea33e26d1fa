#include "studies/validation.h"

#include <algorithm>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "metrics/evaluation.h"
#include "rollout/diverged.h"
#include "rollout/rollout.h"

namespace slift {
namespace {

Scores validate(const TransitionModel& model, const TrajectoryReader& truth,
                const RolloutOptions& rollout, const std::filesystem::path& file) {
  roll_out_to_file(model, truth, rollout, file);
  EvaluateOptions options;
  options.exact_points = 0;
  options.bootstrap = 0;
  options.distances_only = true;
  const Evaluation e = evaluate(TrajectoryReader(file), truth, options);
  Scores scores = {{"w2", e.headline().value}, {"w2_ratio", e.headline().ratio()}};
  if (const Score* crossing = e.find("W2 of crossing times")) {
    scores.emplace_back("wct", crossing->value);
    scores.emplace_back("wct_ratio", crossing->ratio());
  }
  return scores;
}

}  // namespace

std::function<Scores(const TransitionModel&)> make_validator(const TrainConfig& config,
                                                             const std::filesystem::path& run) {
  if (config.validate_every == 0) return {};
  require(!config.validation_path.empty(), "validation.path is not set, validation.every is {}",
          config.validate_every);
  const auto truth = std::make_shared<TrajectoryReader>(config.validation_path);
  require(truth->info().members >= 4, "{}: at least 4 trajectories are needed to validate, got {}",
          truth->path(), truth->info().members);
  RolloutOptions rollout;
  rollout.members = std::min(config.validation_members, truth->info().members / 2);
  rollout.steps = truth->info().steps - 1;
  const std::filesystem::path file = run / "validation.h5";
  return [truth, rollout, file](const TransitionModel& model) -> Scores {
    const QuietProgress quiet;
    try {
      return validate(model, *truth, rollout, file);
    } catch (const Interrupted&) {
      return {};  // the training stops by itself, after saving
    } catch (const Diverged& diverged) {
      spdlog::warn("validation: {}", diverged.what());
      return {{"diverged", 1}};
    }
  };
}

}  // namespace slift
