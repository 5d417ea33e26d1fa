#include "training/gauge.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <limits>

namespace slift {
namespace {

constexpr std::int64_t kFreshLabels = 8;
constexpr std::int64_t kMemberStride = std::int64_t{1} << 40;  // beyond all transitions

// Below this share of the conditional variance the training labels count as interpolated ...
constexpr double kInterpolated = 0.2;
// ... and a spread below this share as none.
constexpr double kCollapsed = 0.1;

}  // namespace

std::string GaugeReading::verdict() const {
  if (!has_fitted()) return spread_ratio() < kCollapsed ? "mean collapse" : "sampling";
  if (fitted_ratio() < kInterpolated) return "interpolating";
  return spread_ratio() < kCollapsed ? "mean collapse" : "not yet interpolating";
}

std::string GaugeReading::in_words() const {
  const std::string kind = verdict();
  if (!has_fitted()) {
    return fmt::format("{}: of the conditional variance, samples spread {:.2g}", kind,
                       spread_ratio());
  }
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
                        std::uint64_t seed) {
  torch::NoGradGuard no_grad;
  const auto mean = [](const Tensor& x) { return x.to(at::kDouble).mean().item<double>(); };
  const at::TensorOptions indices = probe.transition.options();
  const Method& method = model.method();
  const TrainingBatch batch = model.training_batch(probe.window, probe.next, probe.transition,
                                                   at::zeros({1}, indices), seed);
  const Tensor fitted = method.recall(model.network(), batch);
  // Var = E[F^2] - E[F]^2 would cancel; outputs are kept instead, a probe is small.
  std::vector<Tensor> outputs;
  const Tensor numbers =
      at::empty({probe.transition.size(0), method.numbers()}, batch.window.options());
  for (std::int64_t j = 0; j < kFreshLabels; ++j) {
    // Other members, not other steps: numbers may stay with a member.
    method.draw(seed, probe.transition + j * kMemberStride, at::zeros({1}, indices), numbers);
    outputs.push_back(method.sample(model.network(), batch.window, numbers));
  }
  const Tensor fresh = at::stack(outputs);
  const Tensor& target = batch.target;
  GaugeReading r;
  r.fitted = fitted.defined() ? mean((fitted - target).square())
                              : std::numeric_limits<double>::quiet_NaN();
  r.fresh = mean((fresh - target).square());
  r.spread = mean(fresh.var(0, /*unbiased=*/true));
  // Positive but for the noise of few labels.
  r.conditional = std::max(r.fresh - r.spread, std::numeric_limits<double>::min());
  r.variance = mean((target - target.mean(0)).square());
  return r;
}

}  // namespace slift
