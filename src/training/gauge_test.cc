#include "training/gauge.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "core/random.h"
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
  const GaugeReading r = read_gauge(model, probe, labels.seed);
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

TEST(Gauge, ALiftedModelInterpolatesAndCarriesTheConditionalVariance) {
  const DeviceBatch probe = noise_pairs(64);
  const LabelSource labels{7, 16};
  TransitionModel model = make_model(16, 128);
  fit(model, probe, labels, 300);
  const GaugeReading r = read_gauge(model, probe, labels.seed);
  EXPECT_EQ(r.verdict(), "interpolating") << r.in_words();
  EXPECT_LT(r.fitted_share(), 0.01);
  EXPECT_LT(r.fitted_ratio(), 0.02);
  EXPECT_GT(r.spread_ratio(), 0.2);
  EXPECT_LT(r.spread_ratio(), 2);
}

TEST(Gauge, WithoutLabelsNoiseCollapsesToTheMean) {
  const DeviceBatch probe = noise_pairs(2000);
  const LabelSource labels{7, 0};
  TransitionModel model = make_model(0, 16);
  fit(model, probe, labels, 200);
  const GaugeReading r = read_gauge(model, probe, labels.seed);
  EXPECT_EQ(r.verdict(), "mean collapse") << r.in_words();
  EXPECT_EQ(r.spread, 0);
  EXPECT_NEAR(r.fitted, r.conditional, 1e-6);
}

TEST(Gauge, VerdictsAndTheirWords) {
  GaugeReading r{.fitted = 0.3, .fresh = 1.5, .spread = 0.5, .conditional = 1, .variance = 1};
  EXPECT_EQ(r.verdict(), "not yet interpolating");
  EXPECT_EQ(
      r.in_words(),
      "not yet interpolating: of the conditional variance, the loss on training labels is 0.3 "
      "and fresh labels spread 0.5; samples will be under-dispersed; more iterations or a "
      "larger network would help");
  r.fitted = 0.01;
  EXPECT_EQ(r.verdict(), "interpolating");
  // Nearly all is told by the window: a small loss is no sign of interpolation.
  r = {.fitted = 0.009, .fresh = 0.0115, .spread = 0.0015, .conditional = 0.01, .variance = 1};
  EXPECT_EQ(r.verdict(), "not yet interpolating");
  r.fitted = 0.9, r.conditional = 1, r.spread = 0.05;
  EXPECT_EQ(r.verdict(), "mean collapse");
  EXPECT_EQ(r.in_words().find("mean collapse"), 0u);
}

}  // namespace
}  // namespace slift
