// Whether the recorded step of a rollout is the step: `slift rollout --check`.
#pragma once

#include <cstdint>
#include <string>

#include "rollout/stepper.h"

namespace slift {

struct StepCheck {
  std::int64_t steps = 0;
  bool recorded = false;  // on the CPU nothing is: both ways are the same
  bool labels_equal = false;
  // Between two numbers of a state, in standard deviations of the training data's channel.
  double largest_difference = 0;
  double limit = 0;

  bool passed() const { return labels_equal && largest_difference <= limit; }  // not if it is NaN
  std::string in_words() const;
};

// What some steps gave: labels [steps, rows, d], states [steps, rows, state...].
struct StepRun {
  Tensor labels, states;
};

// The limit is 1e-5, and 2e-2 if the model's precision is not fp32.
StepCheck compare_steps(const TransitionModel& model, const StepRun& recorded,
                        const StepRun& eager);

// Ten steps of both from what Stepper::load() gets. `eager` records nothing; both are `model`'s,
// with the same seed and rows.
StepCheck check_step(const TransitionModel& model, Stepper& recorded, Stepper& eager,
                     std::int64_t first_member, const Tensor& window, std::int64_t time);

}  // namespace slift
