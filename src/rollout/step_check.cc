#include "rollout/step_check.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

namespace slift {
namespace {

// Roundings grow from step to step, in a chaotic system without end: few steps.
constexpr std::int64_t kCheckedSteps = 10;
constexpr double kFullLimit = 1e-5, kReducedLimit = 2e-2;

}  // namespace

std::string StepCheck::in_words() const {
  return fmt::format(
      "{} steps, {}: labels {}, states differ by at most {:.2g} standard deviations (limit {:g})",
      steps,
      recorded ? "recorded and eagerly" : "twice eagerly, since nothing is recorded on the CPU",
      labels_equal ? "equal" : "differ", largest_difference, limit);
}

StepCheck compare_steps(const TransitionModel& model, const StepRun& recorded,
                        const StepRun& eager) {
  std::vector<std::int64_t> per_channel(model.spec().state_shape.size(), 1);
  per_channel[0] = -1;
  const Tensor scale = at::tensor(model.spec().normaliser.std).view(per_channel).to(model.device());
  return {
      .steps = recorded.states.size(0),
      .recorded = model.device().is_cuda(),
      .labels_equal = at::equal(recorded.labels, eager.labels),
      .largest_difference = ((recorded.states - eager.states) / scale).abs().max().item<double>(),
      .limit = model.precision() == "fp32" ? kFullLimit : kReducedLimit};
}

StepCheck check_step(const TransitionModel& model, Stepper& recorded, Stepper& eager,
                     std::int64_t first_member, const Tensor& window, std::int64_t time) {
  const c10::InferenceMode inference;
  const auto run = [&](Stepper& stepper) {
    std::vector<Tensor> labels, states;
    stepper.load(first_member, window, time);
    for (std::int64_t i = 0; i < kCheckedSteps; ++i) {
      stepper.advance();
      labels.push_back(stepper.numbers().clone());
      states.push_back(stepper.state().clone());
    }
    return StepRun{at::stack(labels), at::stack(states)};
  };
  return compare_steps(model, run(recorded), run(eager));
}

}  // namespace slift
