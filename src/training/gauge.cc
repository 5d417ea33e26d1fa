#include "training/gauge.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <limits>

namespace slift {
namespace {

constexpr std::int64_t kFreshLabels = 8;

// Below this share of the conditional variance the training labels count as interpolated ...
constexpr double kInterpolated = 0.2;
// ... and a spread below this share as none.
constexpr double kCollapsed = 0.1;

}  // namespace

std::string GaugeReading::verdict() const {
  if (fitted_ratio() < kInterpolated) return "interpolating";
  return spread_ratio() < kCollapsed ? "mean collapse" : "not yet interpolating";
}

std::string GaugeReading::in_words() const {
  const std::string kind = verdict();
  const std::string advice =
      kind == "interpolating" ? "fresh labels make samples"
      : kind == "mean collapse"
          ? "samples will all be the mean; more label dimensions, a larger network or more "
            "iterations are needed"
          : "samples will be under-dispersed; more iterations or a larger network would help";
  return fmt::format(
      "{}: of the conditional variance, the loss on training labels is {:.2g} and fresh labels "
      "spread {:.2g}; {}",
      kind, fitted_ratio(), spread_ratio(), advice);
}

GaugeReading read_gauge(const TransitionModel& model, const DeviceBatch& probe,
                        const LabelSource& labels) {
  torch::NoGradGuard no_grad;
  const auto mean = [](const Tensor& x) { return x.to(at::kDouble).mean().item<double>(); };
  const Tensor target = model.scaled_target(probe.window, probe.next);
  const Tensor fitted = model.scaled_output(probe.window, labels.for_transitions(probe.transition));
  // Var = E[F^2] - E[F]^2 would cancel; outputs are kept instead, a probe is small.
  std::vector<Tensor> outputs;
  for (const Tensor& j : at::arange(kFreshLabels, probe.transition.options()).unbind()) {
    outputs.push_back(model.scaled_output(probe.window, labels.for_members(probe.transition, j)));
  }
  const Tensor fresh = at::stack(outputs);
  GaugeReading r;
  r.fitted = mean((fitted - target).square());
  r.fresh = mean((fresh - target).square());
  r.spread = mean(fresh.var(0, /*unbiased=*/true));
  // Positive but for the noise of few labels.
  r.conditional = std::max(r.fresh - r.spread, std::numeric_limits<double>::min());
  r.variance = mean((target - target.mean(0)).square());
  return r;
}

}  // namespace slift
