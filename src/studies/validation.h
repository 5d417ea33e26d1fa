// How good a model is while it is still in training: rollouts from the validation trajectories'
// first states, compared with the trajectories themselves.
#pragma once

#include <filesystem>
#include <functional>

#include "training/trainer.h"

namespace slift {

// For TrainOptions::validate; empty if the config asks for no validation. Scores: `w2` (sliced W2,
// or WIM for fields) and `wct` where the system has a crossing rule, each with `_ratio` to its
// floor; `diverged` = 1 alone if a rollout does. The rollouts are written to `run`/validation.h5.
// Throws UserError if the file cannot serve.
std::function<Scores(const TransitionModel&)> make_validator(const TrainConfig& config,
                                                             const std::filesystem::path& run);

}  // namespace slift
