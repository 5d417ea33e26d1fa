// A last stretch of training that looks at rollouts: in each step a few members are rolled out from
// the beginning of training trajectories, with numbers never used before, and compared with true
// trajectories by their energy score. Regression alone sees only labels it knows and true windows;
// this sees new labels, on the windows the model makes itself.
//
// The windows of a rollout are taken as given: the gradient of the score goes through the last
// evaluation before each state, not through the rollout. That needs the memory of one step, and
// does not disturb what regression has learned.
#pragma once

#include <cstdint>

#include "methods/transition_model.h"
#include "training/config.h"
#include "training/energy_score.h"

namespace slift {

// The steps of some members' rollouts, one member after the other.
struct ScoredSteps {
  Tensor window;   // [R, m, state...]
  Tensor numbers;  // [R, n]
  Tensor pull;     // [R, state...], the derivative of the weighted score by the next state
  Tensor score;    // scalar, not weighted
};

class RolloutScore {
 public:
  // Keeps as many of the first `members` trajectories of `reader` as fit into `bytes` on the
  // model's device. `model` must outlive this. Throws UserError if the method evaluates its network
  // more than once a step or there are not enough states.
  RolloutScore(const TrainConfig& config, const TrajectoryReader& reader, std::int64_t members,
               std::int64_t bytes, const TransitionModel& model);

  // Brings what an iteration draws to the device: which trajectories, which members.
  void stage(std::int64_t iteration);
  // Rolls out what was staged, and returns the steps of the members first .. first+count-1. Works
  // on the device alone and can be recorded (tensor/step_graph.h).
  ScoredSteps roll_out(std::int64_t first, std::int64_t count) const;

  std::int64_t members() const { return members_; }

 private:
  // Members first .. first+count-1 from `start` [G, state...], into `path` and `numbers`.
  void roll_out_rows(const Tensor& start, std::int64_t first, std::int64_t count,
                     const Tensor& path, const Tensor& numbers) const;

  const TransitionModel& model_;
  std::uint64_t seed_;
  std::int64_t members_, truths_, steps_;
  double weight_;
  Tensor trajectories_;  // [N, steps + 1, state...]
  Tensor scale_;         // [steps + 1], of states at a step
  Tensor chosen_;        // [members + truths] int64: of the trajectories
  Tensor ids_;           // [members] int64
  Tensor times_;         // [steps] int64, from 0
};

}  // namespace slift
