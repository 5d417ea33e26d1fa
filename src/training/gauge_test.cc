#include "training/gauge.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "core/random.h"
#include "core/testing.h"
#include "methods/labels.h"

namespace slift {
namespace {

// Pairs of independent normals: the window says nothing about the next state.
DeviceBatch noise_pairs(std::int64_t rows) {
  Tensor values = at::empty({rows, 2}, at::kFloat);
  fill_normal({3, Purpose::kSystemNoise, 0, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return {values.narrow(1, 0, 1).reshape({rows, 1, 1}).contiguous(),
          values.narrow(1, 1, 1).contiguous(), at::arange(rows, at::kLong)};
}

TransitionModel make_model(std::int64_t label_dimension, std::int64_t width) {
  ModelSpec spec;
  spec.net.width = width;
  spec.net.layers = 2;
  spec.net.output = "direct";
  spec.state_shape = {1};
  spec.method.lifting.dimension = label_dimension;
  spec.normaliser = {{0.0f}, {1.0f}, {1.0f}};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  return model;
}

Gauge gauge_of(const TransitionModel& model, const DeviceBatch& probe, std::uint64_t seed) {
  return read_gauge(model, {.steps = {0}, .transitions = {probe}}, nullptr, seed);
}

// Full-batch gradient descent with momentum on the fixed labels.
void fit(TransitionModel& model, const DeviceBatch& batch, const LabelSource& labels, int steps) {
  const Tensor label = labels.for_transitions(batch.transition);
  std::vector<Tensor> first, second;
  for (const Tensor& p : model.backbone().parameters()) {
    first.push_back(at::zeros_like(p)), second.push_back(at::zeros_like(p));
  }
  for (int t = 1; t <= steps; ++t) {
    at::mse_loss(model.forward(batch.window, label), batch.next).backward();
    torch::NoGradGuard no_grad;
    std::size_t i = 0;
    for (Tensor& p : model.backbone().parameters()) {  // Adam
      first[i].mul_(0.9).add_(p.grad(), 0.1);
      second[i].mul_(0.999).addcmul_(p.grad(), p.grad(), 0.001);
      const double correction = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
      p.addcdiv_(first[i], second[i].sqrt().add_(1e-8), -3e-3 * correction);
      p.mutable_grad() = Tensor();
      ++i;
    }
  }
}

TEST(Gauge, NumbersAreThoseOfTheirDefinition) {
  const DeviceBatch probe = noise_pairs(50);
  const LabelSource labels{7, 3};
  TransitionModel model = make_model(3, 32);
  fit(model, probe, labels, 20);
  const GaugeReading r = gauge_of(model, probe, labels.seed).training.pooled;
  torch::NoGradGuard no_grad;
  const auto output = [&](const Tensor& label) {
    return model.forward(probe.window, label).flatten().to(at::kDouble);
  };
  const Tensor y = probe.next.flatten().to(at::kDouble);
  double fresh = 0, spread = 0;
  std::vector<Tensor> samples;
  for (std::int64_t j = 0; j < 8; ++j) {
    const Tensor member = probe.transition + (j << 40);
    samples.push_back(output(labels.for_members(member, at::zeros({1}, at::kLong))));
  }
  for (std::int64_t i = 0; i < 50; ++i) {
    double mean = 0;
    for (const Tensor& s : samples) mean += s[i].item<double>() / 8;
    for (const Tensor& s : samples) {
      const double f = s[i].item<double>(), target = y[i].item<double>();
      fresh += (f - target) * (f - target) / (8 * 50);
      spread += (f - mean) * (f - mean) / (7 * 50);
    }
  }
  const Tensor fitted = output(labels.for_transitions(probe.transition));
  EXPECT_NEAR(r.fitted, (fitted - y).square().mean().item<double>(), 1e-6);
  EXPECT_NEAR(r.fresh, fresh, 1e-6);
  EXPECT_NEAR(r.spread, spread, 1e-6);
  EXPECT_NEAR(r.conditional, fresh - spread, 1e-6);
  EXPECT_NEAR(r.variance, (y - y.mean()).square().mean().item<double>(), 1e-6);
  EXPECT_GT(r.spread, 0);
}

// Reads the gauge of a model with labels of dimension d that was fitted to `rows` pairs of noise.
Gauge gauge_of_fitted(std::int64_t d, std::int64_t rows, std::int64_t width, int steps) {
  const DeviceBatch probe = noise_pairs(rows);
  const LabelSource labels{7, d};
  TransitionModel model = make_model(d, width);
  fit(model, probe, labels, steps);
  return gauge_of(model, probe, labels.seed);
}

TEST(Gauge, ALiftedModelInterpolatesAndCarriesTheConditionalVariance) {
  const Gauge gauge = gauge_of_fitted(8, 64, 128, 300);
  const GaugeReading& r = gauge.training.pooled;
  EXPECT_EQ(gauge.verdict(), "interpolating") << gauge.in_words();
  EXPECT_LT(r.fitted_share(), 0.01);
  EXPECT_LT(r.fitted_ratio(), 0.02);
  EXPECT_GT(r.spread_ratio(), 0.5);
  EXPECT_LT(r.spread_ratio(), 2);
}

// With so many dimensions fresh labels fall between the few that were learned.
TEST(Gauge, InterpolatingAloneIsNotEnough) {
  const Gauge gauge = gauge_of_fitted(64, 64, 128, 300);
  EXPECT_LT(gauge.training.pooled.fitted_ratio(), 1e-6);
  EXPECT_EQ(gauge.verdict(), "interpolating, too narrow") << gauge.in_words();
}

TEST(Gauge, WithoutLabelsNoiseCollapsesToTheMean) {
  const Gauge gauge = gauge_of_fitted(0, 2000, 16, 200);
  const GaugeReading& r = gauge.training.pooled;
  EXPECT_EQ(gauge.verdict(), "mean collapse") << gauge.in_words();
  EXPECT_EQ(r.spread, 0);
  EXPECT_NEAR(r.fitted, r.conditional, 1e-6);
}

// Makes a reading of one step, with a variance of 1 and fresh = conditional + spread.
ProbeReading reading(double fitted, double spread, double conditional) {
  const GaugeReading r{fitted, conditional + spread, spread, conditional, 1};
  return {.pooled = r, .at_step = {r}};
}

TEST(Gauge, Verdicts) {
  const auto verdict = [](double fitted, double spread, double conditional) {
    return Gauge{{0}, reading(fitted, spread, conditional), std::nullopt}.verdict();
  };
  EXPECT_EQ(verdict(0.01, 0.6, 1), "interpolating");
  EXPECT_EQ(verdict(0.3, 0.5, 1), "not yet interpolating");
  EXPECT_EQ(verdict(0.9, 0.05, 1), "mean collapse");
  // Fitted, and yet fresh labels make no samples.
  EXPECT_EQ(verdict(0.01, 0.4, 1), "interpolating, too narrow");
  EXPECT_EQ(verdict(0.01, 0.05, 1), "interpolating, too narrow");
  EXPECT_EQ(verdict(0.01, 2.5, 1), "interpolating, too wide");
  // Nearly all is told by the window: a small loss is no sign of interpolation.
  EXPECT_EQ(verdict(0.009, 0.0015, 0.01), "not yet interpolating");
  const double none = std::nan("");
  EXPECT_EQ(verdict(none, 1, 1), "sampling");
  EXPECT_EQ(verdict(none, 0.3, 1), "sampling, too narrow");
  EXPECT_EQ(verdict(none, 0.01, 1), "mean collapse");
}

TEST(Gauge, WindowsHeldOutDecideOnTheSpread) {
  Gauge gauge{{0, 5}, reading(0.01, 1, 1), reading(std::nan(""), 0.2, 1)};
  gauge.held_out->at_step.push_back({std::nan(""), 1.1, 0.1, 1, 1});
  EXPECT_EQ(gauge.verdict(), "interpolating, too narrow");
  EXPECT_EQ(gauge.in_words(),
            "interpolating, too narrow: the loss on training labels is 0.01 of the conditional "
            "variance, fresh labels spread 0.2 of their error on held-out windows, least at step 5 "
            "(0.1); 1 is right; fresh labels fall between those that were learned");
}

TEST(Gauge, AMeanThatIsNotLearnedSaysNothingOfFrozenRandomness) {
  Gauge gauge{{0}, reading(0.01, 1, 0.4), std::nullopt};
  gauge.training.residual_correlation = 0.3;
  EXPECT_TRUE(gauge.is_frozen());
  gauge.training.residual_correlation = 0.05;
  EXPECT_FALSE(gauge.is_frozen());
  gauge.training = reading(0.9, 0.01, 0.9);
  gauge.training.residual_correlation = 0.7;
  EXPECT_FALSE(gauge.is_frozen());
  gauge.training.residual_correlation = std::nan("");
  EXPECT_FALSE(gauge.is_frozen());
}

TEST(Gauge, AllStepsOfShortTrajectoriesAndPairsOfLongOnes) {
  EXPECT_EQ(probed_steps(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(probed_steps(16).size(), 16u);
  for (const std::int64_t transitions : {17, 63, 1000}) {
    const std::vector<std::int64_t> steps = probed_steps(transitions);
    ASSERT_EQ(steps.size(), 16u);
    EXPECT_EQ(steps.front(), 0);
    EXPECT_EQ(steps.back(), transitions - 1);
    for (std::size_t i = 1; i < steps.size(); ++i) {
      EXPECT_GT(steps[i], steps[i - 1]);
      if (i % 2 == 1) {
        EXPECT_EQ(steps[i], steps[i - 1] + 1);
      }
    }
  }
}

// Writes walks of one number, 6 states each, whose steps are drawn anew or stay as they were first.
TrajectoryReader write_walks(const TestFolder& folder, bool frozen) {
  TrajectoryInfo info;
  info.members = 300;
  info.steps = 6;
  info.state_shape = {1};
  std::vector<float> states;
  for (std::uint64_t m = 0; m < 300; ++m) {
    std::vector<float> steps(5);
    fill_normal({1, Purpose::kSystemNoise, m, 0}, steps);
    float x = 0;
    states.push_back(x);
    for (std::size_t t = 0; t < 5; ++t) states.push_back(x += frozen ? steps[0] : steps[t]);
  }
  TrajectoryWriter writer(folder / "walks.h5", info);
  writer.write(0, info.members, states);
  writer.commit();
  return TrajectoryReader(folder / "walks.h5");
}

TEST(Gauge, ProbesAreTransitionsOfTheFile) {
  const TestFolder folder;
  const TrajectoryReader reader = write_walks(folder, /*frozen=*/false);
  const GaugeProbe probe = make_probe(reader, 290, {0, 4}, /*window=*/3, at::kCPU);
  ASSERT_EQ(probe.transitions.size(), 2u);
  std::vector<float> all(300 * 6);
  reader.read(0, 300, all);
  for (const std::size_t i : {0U, 1U}) {
    const DeviceBatch& rows = probe.transitions[i];
    ASSERT_EQ(rows.transition.size(0), 256);
    for (const std::int64_t row : {0, 100, 255}) {
      const auto k = rows.transition[row].item<std::int64_t>();
      EXPECT_EQ(k / 5, row * 290 / 256);
      const std::int64_t t = k % 5;
      EXPECT_EQ(t, probe.steps[i]);
      const float* states = all.data() + k / 5 * 6;
      EXPECT_EQ(rows.next[row][0].item<float>(), states[t + 1]);
      for (std::int64_t age = 0; age < 3; ++age) {
        EXPECT_EQ(rows.window[row][2 - age][0].item<float>(),
                  states[std::max<std::int64_t>(t - age, 0)]);
      }
    }
  }
}

// Errors of frozen steps are alike all along once the mean is learned; those of independent steps
// are not.
TEST(Gauge, ErrorsPersistWhereTheRandomnessIsFrozen) {
  for (const bool frozen : {false, true}) {
    const TestFolder folder;
    const TrajectoryReader reader = write_walks(folder, frozen);
    const GaugeProbe probe = make_probe(reader, 300, probed_steps(5), 1, at::kCPU);
    TransitionModel model = make_model(0, 16);
    std::vector<Tensor> windows, nexts;
    for (const DeviceBatch& rows : probe.transitions) {
      windows.push_back(rows.window);
      nexts.push_back(frozen ? rows.window.select(1, 0) : rows.next);
    }
    const Tensor next = at::cat(nexts);
    fit(model, {at::cat(windows), next, at::arange(next.size(0), at::kLong)}, {1, 0}, 300);
    const Gauge gauge = read_gauge(model, probe, nullptr, 1);
    EXPECT_EQ(gauge.is_frozen(), frozen) << gauge.training.residual_correlation;
    EXPECT_NEAR(gauge.training.residual_correlation, frozen ? 1 : 0, 0.1);
  }
}

// Trajectories whose errors are always large, but of a new sign at each step, are not frozen; and
// the pooled variance is that of all targets around one mean.
TEST(Gauge, LargeErrorsAreNotFrozenOnes) {
  constexpr std::int64_t kRows = 200, kSize = 50;
  ModelSpec spec;
  spec.net.width = 16;
  spec.net.layers = 2;
  spec.net.output = "direct";
  spec.state_shape = {kSize};
  spec.method.lifting.dimension = 0;
  const std::vector<float> zeros(kSize, 0), ones(kSize, 1);
  spec.normaliser = {zeros, ones, ones};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  GaugeProbe probe{.steps = {0, 1}, .transitions = {}};
  const Tensor size = at::ones({kRows, 1});
  size.narrow(0, 0, kRows / 4).fill_(20);
  std::vector<Tensor> targets;
  for (std::uint32_t t = 0; t < 2; ++t) {
    const Tensor noise = at::empty({kRows, kSize});
    fill_normal({5, Purpose::kSystemNoise, 0, t}, {noise.data_ptr<float>(), kRows * kSize});
    const auto step = static_cast<std::int64_t>(t);
    targets.push_back(noise * size + 30.0 * static_cast<double>(t));
    probe.transitions.push_back(
        {at::zeros({kRows, 1, kSize}), targets.back(), at::arange(kRows, at::kLong) * 2 + step});
  }
  const ProbeReading reading = read_gauge(model, probe, nullptr, 1).training;
  EXPECT_LT(std::abs(reading.residual_correlation), 0.1);
  const double variance = at::cat(targets).var(/*unbiased=*/false).item<double>();
  EXPECT_NEAR(reading.pooled.variance, variance, 1e-3 * variance);
}

}  // namespace
}  // namespace slift
