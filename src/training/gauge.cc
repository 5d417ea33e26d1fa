#include "training/gauge.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>

#include "core/parallel.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

constexpr std::int64_t kFreshLabels = 8;
constexpr std::int64_t kMemberStride = std::int64_t{1} << 40;  // beyond all transitions
constexpr std::int64_t kSteps = 16;                            // an even number
constexpr std::int64_t kFieldTrajectories = 32, kVectorTrajectories = 256;

// Below this share of the conditional variance the training labels count as interpolated ...
constexpr double kInterpolated = 0.2;
// ... a spread below this share as none ...
constexpr double kCollapsed = 0.1;
// ... and outside these as too narrow or too wide, a factor of 1.4 in the standard deviation.
constexpr double kNarrow = 0.5, kWide = 2;
// From here on errors persist along trajectories.
constexpr double kFrozen = 0.1;
// ... where the mean explains at least the rest of the variance: errors of a mean that is not
// learned persist, too.
constexpr double kUnexplained = 0.5;

double mean_of(const Tensor& x) { return x.to(at::kDouble).mean().item<double>(); }

// What one step gives, and what is needed to compare it with others.
struct OneStep {
  GaugeReading reading;
  Tensor error;        // of the mean over fresh labels [B, n]
  Tensor target_mean;  // [state...]
};

OneStep read_step(const TransitionModel& model, const DeviceBatch& rows, std::uint64_t seed,
                  bool trained_on) {
  const at::TensorOptions indices = rows.transition.options();
  const Method& method = model.method();
  const TrainingBatch batch =
      model.training_batch(rows.window, rows.next, rows.transition, at::zeros({1}, indices), seed);
  // Var = E[F^2] - E[F]^2 would cancel; outputs are kept instead, a probe is small.
  std::vector<Tensor> outputs;
  const Tensor numbers =
      at::empty({rows.transition.size(0), method.numbers()}, batch.window.options());
  for (std::int64_t j = 0; j < kFreshLabels; ++j) {
    // Other members, not other steps: numbers may stay with a member.
    method.draw(seed, rows.transition + j * kMemberStride, at::zeros({1}, indices), numbers);
    outputs.push_back(method.sample(model.network(), batch.window, numbers));
  }
  const Tensor fresh = at::stack(outputs), error = fresh.mean(0) - batch.target;
  OneStep step{{}, error.flatten(1), batch.target.mean(0)};
  GaugeReading& r = step.reading;
  const Tensor fitted = trained_on ? method.recall(model.network(), batch) : Tensor();
  r.fitted = fitted.defined() ? mean_of((fitted - batch.target).square())
                              : std::numeric_limits<double>::quiet_NaN();
  r.fresh = mean_of((fresh - batch.target).square());
  r.spread = mean_of(fresh.var(0, /*unbiased=*/true));
  // Positive but for the noise of few labels.
  r.conditional = std::max(r.fresh - r.spread, std::numeric_limits<double>::min());
  r.variance = mean_of((batch.target - step.target_mean).square());
  return step;
}

// Whether pairs of trajectories whose errors are alike at one step are so at the next: the
// correlation of the inner products of all pairs, without what all errors have in common. Fields
// move, so errors are not compared point by point. Errors of their own at each step have no sign in
// common and give 0.
double correlation_of_pairs(const Tensor& before, const Tensor& after) {
  const auto products = [](const Tensor& error) {
    const Tensor own = (error - error.mean(0)).to(at::kDouble), k = own.matmul(own.t());
    return k - at::diag(k.diag());
  };
  const Tensor a = products(before), b = products(after);
  return ((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()).item<double>();
}

ProbeReading read_probe(const TransitionModel& model, const GaugeProbe& probe, std::uint64_t seed,
                        bool trained_on) {
  const std::size_t count = probe.steps.size();
  std::vector<OneStep> read(count);
  const auto read_one = [&](std::int64_t i) {
    const torch::NoGradGuard no_grad;  // of this thread
    const auto step = static_cast<std::size_t>(i);
    read[step] = read_step(model, probe.transitions[step], seed, trained_on);
  };
  if (model.device().is_cpu()) {
    parallel_for(std::ssize(read), [&](std::int64_t i) {
      const SerialMath serial;
      read_one(i);
    });
  } else {
    for (std::int64_t i = 0; i < std::ssize(read); ++i) read_one(i);
  }

  ProbeReading result;
  std::vector<Tensor> means;
  double correlations = 0, pairs = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const OneStep& step = read[i];
    result.at_step.push_back(step.reading);
    means.push_back(step.target_mean);
    for (double GaugeReading::*part :
         {&GaugeReading::fitted, &GaugeReading::fresh, &GaugeReading::spread,
          &GaugeReading::conditional, &GaugeReading::variance}) {
      result.pooled.*part += step.reading.*part / static_cast<double>(count);
    }
    if (i == 0 || probe.steps[i] != probe.steps[i - 1] + 1) continue;
    const double correlation = correlation_of_pairs(read[i - 1].error, step.error);
    if (std::isfinite(correlation)) correlations += correlation, pairs += 1;
  }
  // All targets around one mean: what they vary at a step, and what their means do between steps.
  const Tensor at_steps = at::stack(means);
  result.pooled.variance += mean_of((at_steps - at_steps.mean(0)).square());
  if (pairs > 0) result.residual_correlation = correlations / pairs;
  return result;
}

std::string verdict_of_spread(const std::string& kind, double ratio) {
  return ratio < kNarrow ? kind + ", too narrow" : ratio > kWide ? kind + ", too wide" : kind;
}

}  // namespace

std::vector<std::int64_t> probed_steps(std::int64_t transitions) {
  std::vector<std::int64_t> steps;
  if (transitions <= kSteps) {
    for (std::int64_t t = 0; t < transitions; ++t) steps.push_back(t);
    return steps;
  }
  constexpr std::int64_t kPairs = kSteps / 2;
  for (std::int64_t pair = 0; pair < kPairs; ++pair) {
    const std::int64_t t = pair * (transitions - 2) / (kPairs - 1);
    steps.push_back(t);
    steps.push_back(t + 1);
  }
  return steps;
}

GaugeProbe make_probe(const TrajectoryReader& reader, std::int64_t members,
                      const std::vector<std::int64_t>& steps, std::int64_t window,
                      const at::Device& device) {
  const TrajectoryInfo& info = reader.info();
  const std::int64_t rows =
      std::min(members, info.is_vector() ? kVectorTrajectories : kFieldTrajectories);
  std::vector<std::int64_t> shape = {rows, info.steps}, chosen;
  shape.insert(shape.end(), info.state_shape.begin(), info.state_shape.end());
  const Tensor states = at::empty(shape, at::kFloat);
  const auto size = static_cast<std::size_t>(info.trajectory_size());
  for (std::int64_t i = 0; i < rows; ++i) {
    chosen.push_back(i * members / rows);
    reader.read(chosen.back(), 1,
                {states.data_ptr<float>() + static_cast<std::size_t>(i) * size, size});
  }
  const Tensor trajectory = at::tensor(chosen, at::kLong);
  GaugeProbe probe{.steps = steps, .transitions = {}};
  for (const std::int64_t t : probe.steps) {
    const Tensor before = at::arange(t - window + 1, t + 1, at::kLong).clamp_min(0);
    probe.transitions.push_back({states.index_select(1, before).to(device),
                                 states.select(1, t + 1).to(device),
                                 (trajectory * (info.steps - 1) + t).to(device)});
  }
  return probe;
}

std::size_t ProbeReading::narrowest() const {
  const auto narrower = [](const GaugeReading& a, const GaugeReading& b) {
    return a.spread_ratio() < b.spread_ratio();
  };
  return static_cast<std::size_t>(std::min_element(at_step.begin(), at_step.end(), narrower) -
                                  at_step.begin());
}

std::string Gauge::verdict() const {
  const double spread = judged().pooled.spread_ratio();
  const GaugeReading& r = training.pooled;
  if (spread < kCollapsed && !(r.fitted_ratio() < kInterpolated)) return "mean collapse";
  if (!r.has_fitted()) return verdict_of_spread("sampling", spread);
  if (r.fitted_ratio() < kInterpolated) return verdict_of_spread("interpolating", spread);
  return "not yet interpolating";
}

bool Gauge::is_frozen() const {
  const ProbeReading& judge = judged();
  return judge.residual_correlation > kFrozen &&
         judge.pooled.conditional < kUnexplained * judge.pooled.variance;
}

std::string Gauge::in_words() const {
  const std::string kind = verdict();
  const ProbeReading& judge = judged();
  const std::size_t narrowest = judge.narrowest();
  std::string text = kind + ":";
  if (training.pooled.has_fitted()) {
    text += fmt::format(" the loss on training labels is {:.2g} of the conditional variance,",
                        training.pooled.fitted_ratio());
  }
  text += fmt::format(" {} spread {:.2g} of their error {}, least at step {} ({:.2g}); 1 is right",
                      training.pooled.has_fitted() ? "fresh labels" : "samples",
                      judge.pooled.spread_ratio(),
                      held_out ? "on held-out windows" : "on training windows", steps[narrowest],
                      judge.at_step[narrowest].spread_ratio());
  if (kind == "mean collapse") {
    text +=
        "; samples will all be near the mean: more label dimensions, a larger network or more "
        "iterations are needed";
  } else if (kind == "not yet interpolating") {
    text += "; more iterations or a larger network would help";
  } else if (kind == "interpolating, too narrow") {
    text += "; fresh labels fall between those that were learned";
  } else if (kind == "interpolating, too wide") {
    text += "; fresh labels fall off the learned map";
  }
  return text;
}

Gauge read_gauge(const TransitionModel& model, const GaugeProbe& training,
                 const GaugeProbe* held_out, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  Gauge gauge{.steps = training.steps,
              .training = read_probe(model, training, seed, /*trained_on=*/true),
              .held_out = std::nullopt};
  if (held_out != nullptr) {
    gauge.held_out = read_probe(model, *held_out, seed, /*trained_on=*/false);
  }
  return gauge;
}

}  // namespace slift
