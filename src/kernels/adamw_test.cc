#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops.h"
#include "tensor/test_devices.h"
#include "tensor/upload.h"

namespace slift {
namespace {

// Empty, tiny, around the lanes of 16, the CUDA blocks of 4096 and the CPU's of 16384 elements; the
// last has four dimensions.
const std::vector<std::vector<std::int64_t>> kShapes = {
    {0},    {1},    {7},    {15},    {16},    {17},    {1000},  {4095},
    {4096}, {4097}, {8193}, {16383}, {16384}, {16385}, {40001}, {8, 4, 3, 5}};

Tensor normals(std::uint64_t index, const std::vector<std::int64_t>& shape) {
  Tensor values = at::empty(shape, at::kFloat);
  fill_normal({11, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

// `x` at an address that is no multiple of 16 bytes.
Tensor misaligned(const Tensor& x) {
  const Tensor roomy = at::empty({x.numel() + 1}, x.options());
  return roomy.narrow(0, 1, x.numel()).view(x.sizes()).copy_(x);
}

double norm_of(const std::vector<Tensor>& grads, const at::Device& device = at::kCPU) {
  Tensor norm = at::full({}, -1, at::TensorOptions(device).dtype(at::kDouble));
  ops::global_norm(grads, norm);
  return norm.item<double>();
}

struct Settings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.1, clip = 0,
         ema_decay = 0.9;

  // As ops::adamw() wants them, for step t = 1, 2, ...
  Tensor at(int t, const at::Device& device) const {
    const auto f = [](double x) { return static_cast<float>(x); };
    const kernels::AdamWStep step{f(lr),
                                  f(1 - beta1),
                                  f(1 - beta2),
                                  f(eps),
                                  f(weight_decay),
                                  f(1 - std::pow(beta1, t)),
                                  f(1 - std::pow(beta2, t)),
                                  f(1 - ema_decay),
                                  clip};
    Tensor bytes = at::empty({sizeof step}, at::TensorOptions(device).dtype(at::kByte));
    upload(std::span(&step, 1), bytes);
    return bytes;
  }
};

class AdamW : public testing::TestWithParam<at::Device> {
 protected:
  ~AdamW() override { at::set_num_threads(threads_); }

  // How the tensors of shape i lie in memory: every third is misaligned, the one with four
  // dimensions channels-last. Every second parameter has a copy.
  static Tensor placed(const Tensor& x, std::size_t i) {
    const Tensor there = x.to(GetParam());
    if (x.dim() == 4) return there.contiguous(at::MemoryFormat::ChannelsLast);
    return i % 3 == 0 ? misaligned(there) : there;
  }
  static ops::AdamWState initial_state() {
    ops::AdamWState state;
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const Tensor param = placed(normals(i, kShapes[i]) / 8, i);
      state.params.push_back(param);
      state.first.push_back(at::zeros_like(param));
      state.second.push_back(at::zeros_like(param));
      state.ema.push_back(param.clone());
      state.copies.push_back(i % 2 == 1 ? at::zeros_like(param, at::kBFloat16) : Tensor());
    }
    return state;
  }
  static Tensor gradient(int t, std::size_t i) {
    return normals(100 * static_cast<std::uint64_t>(t) + i, kShapes[i]);
  }
  static std::vector<Tensor> gradients(int t) {
    std::vector<Tensor> grads;
    for (std::size_t i = 0; i < kShapes.size(); ++i) grads.push_back(placed(gradient(t, i), i + 1));
    return grads;
  }
  static void step(const Tensor& numbers, const std::vector<Tensor>& grads,
                   ops::AdamWState& state) {
    Tensor norm = at::empty({}, numbers.options().dtype(at::kDouble));
    ops::global_norm(grads, norm);
    ops::adamw(numbers, norm, grads, state);
  }
  static ops::AdamWState run(const Settings& settings, int steps) {
    ops::AdamWState state = initial_state();
    for (int t = 1; t <= steps; ++t) step(settings.at(t, GetParam()), gradients(t), state);
    return state;
  }

 private:
  int threads_ = at::get_num_threads();
};

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  return (a.cpu().to(at::kDouble) - b.cpu().to(at::kDouble)).abs().max().item<double>();
}

constexpr int kSteps = 20;
// Weights below 0.6 carry 20 roundings of at most 3e-8, the decay 1 - lr wd as many of 1e-8 (a
// systematic one).
constexpr double kTolerance = 1e-6;

TEST_P(AdamW, AgreesWithLibTorch) {
  const Settings s;
  std::vector<Tensor> params = initial_state().params;
  for (Tensor& p : params) p.requires_grad_();
  torch::optim::AdamW reference(params, torch::optim::AdamWOptions(s.lr)
                                            .betas(std::make_tuple(s.beta1, s.beta2))
                                            .eps(s.eps)
                                            .weight_decay(s.weight_decay));
  for (int t = 1; t <= kSteps; ++t) {
    const std::vector<Tensor> grads = gradients(t);
    for (std::size_t i = 0; i < params.size(); ++i) params[i].mutable_grad() = grads[i];
    reference.step();
  }
  const ops::AdamWState got = run(s, kSteps);
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_LT(largest_difference(got.params[i], params[i].detach()), kTolerance) << i;
  }
}

// The formula of kernels.h, in float64, with clipping that matters.
TEST_P(AdamW, AgreesWithFloat64) {
  Settings s;
  s.clip = 40;
  s.eps = 1e-3;  // large enough to be seen
  const ops::AdamWState got = run(s, kSteps);
  const ops::AdamWState start = initial_state();
  std::vector<double> scales;
  for (int t = 1; t <= kSteps; ++t) {
    double squares = 0;
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      squares += gradient(t, i).to(at::kDouble).square().sum().item<double>();
    }
    scales.push_back(s.clip / std::sqrt(squares));
    EXPECT_LT(scales.back(), 0.2);
  }
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    Tensor p = start.params[i].cpu().to(at::kDouble), ema = p.clone();
    Tensor m = at::zeros_like(p), v = at::zeros_like(p);
    for (int t = 1; t <= kSteps; ++t) {
      const Tensor g = gradient(t, i).to(at::kDouble) * scales[static_cast<std::size_t>(t - 1)];
      p = p * (1 - s.lr * s.weight_decay);
      m = s.beta1 * m + (1 - s.beta1) * g;
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      const Tensor unbiased_m = m / (1 - std::pow(s.beta1, t));
      const Tensor unbiased_v = v / (1 - std::pow(s.beta2, t));
      p = p - s.lr * unbiased_m / (unbiased_v.sqrt() + s.eps);
      ema = s.ema_decay * ema + (1 - s.ema_decay) * p;
    }
    EXPECT_LT(largest_difference(got.params[i], p), kTolerance) << i;
    EXPECT_LT(largest_difference(got.first[i], m), kTolerance) << i;
    EXPECT_LT(largest_difference(got.second[i], v), kTolerance) << i;
    EXPECT_LT(largest_difference(got.ema[i], ema), kTolerance) << i;
  }
}

TEST_P(AdamW, ClipsOnlyNormsAboveTheBound) {
  Settings s;
  const ops::AdamWState never = run(s, 1);
  const double norm = norm_of(gradients(1), GetParam());
  s.clip = 1.01 * norm;
  const ops::AdamWState above = run(s, 1);
  s.clip = 0.5 * norm;
  const ops::AdamWState below = run(s, 1);
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    EXPECT_TRUE(at::equal(above.first[i], never.first[i])) << i;
    EXPECT_LT(largest_difference(below.first[i], 0.5 * never.first[i]), kTolerance) << i;
  }
}

TEST_P(AdamW, CopiesAreTheParametersRounded) {
  const ops::AdamWState state = run(Settings{}, 2);
  for (std::size_t i = 1; i < kShapes.size(); i += 2) {
    EXPECT_TRUE(at::equal(state.copies[i], state.params[i].to(at::kBFloat16))) << i;
  }
}

// Aligned or not, of every size: bfloat16 gradients act as the same numbers in float32.
TEST_P(AdamW, GradientsMayBeRounded) {
  Settings s;
  s.clip = 1;
  ops::AdamWState rounded = initial_state(), wide = initial_state();
  for (int t = 1; t <= 3; ++t) {
    std::vector<Tensor> small, large;
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      small.push_back(placed(gradients(t)[i].to(at::kBFloat16), i + 1));
      large.push_back(small.back().to(at::kFloat));
    }
    small[0] = large[0];  // one of them stays wide
    small[6] = large[6];
    EXPECT_EQ(norm_of(small, GetParam()), norm_of(large, GetParam()));
    step(s.at(t, GetParam()), small, rounded);
    step(s.at(t, GetParam()), large, wide);
  }
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    EXPECT_TRUE(at::equal(rounded.params[i], wide.params[i])) << i;
    EXPECT_TRUE(at::equal(rounded.first[i], wide.first[i])) << i;
    EXPECT_TRUE(at::equal(rounded.second[i], wide.second[i])) << i;
    EXPECT_TRUE(at::equal(rounded.ema[i], wide.ema[i])) << i;
  }
}

// More tensors than one launch carries, each with a value of its own.
TEST_P(AdamW, ManyTensorsKeepTheirPlaces) {
  constexpr std::int64_t kTensors = 150;
  ops::AdamWState state;
  std::vector<Tensor> grads;
  double squares = 0;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    const std::int64_t size = i % 5;
    state.params.push_back(at::zeros({size}, at::TensorOptions(GetParam())));
    state.first.push_back(at::zeros_like(state.params.back()));
    state.second.push_back(at::zeros_like(state.params.back()));
    state.ema.push_back(at::zeros_like(state.params.back()));
    state.copies.emplace_back();
    grads.push_back(at::full_like(state.params.back(), i));
    squares += static_cast<double>(size * i * i);
  }
  EXPECT_NEAR(norm_of(grads, GetParam()), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  step(Settings{}.at(1, GetParam()), grads, state);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_LT(largest_difference(state.first[i], 0.1 * grads[i]), 1e-5) << i;
  }
}

TEST_P(AdamW, EmaEndsAreTheWeightsAndTheStart) {
  Settings s;
  s.ema_decay = 0;
  const ops::AdamWState follows = run(s, 3);
  s.ema_decay = 1;
  const ops::AdamWState stays = run(s, 3);
  const ops::AdamWState start = initial_state();
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    // ema + (p - ema) rounds twice.
    EXPECT_LT(largest_difference(follows.ema[i], follows.params[i]), kTolerance);
    EXPECT_TRUE(at::equal(stays.ema[i], start.ema[i]));
  }
}

// On a GPU threads of the host make no difference, but two runs must agree all the same.
TEST_P(AdamW, BitsDoNotDependOnTheNumberOfThreads) {
  Settings s;
  s.clip = 1;
  at::set_num_threads(1);
  const ops::AdamWState one = run(s, 3);
  const double norm = norm_of(gradients(1), GetParam());
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const ops::AdamWState many = run(s, 3);
    EXPECT_EQ(norm_of(gradients(1), GetParam()), norm) << threads;
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      EXPECT_TRUE(at::equal(many.params[i], one.params[i])) << i;
      EXPECT_TRUE(at::equal(many.first[i], one.first[i])) << i;
      EXPECT_TRUE(at::equal(many.second[i], one.second[i])) << i;
      EXPECT_TRUE(at::equal(many.ema[i], one.ema[i])) << i;
    }
  }
}

TEST_P(AdamW, SizesTypesAndLayoutsAreChecked) {
  const Tensor numbers = Settings{}.at(1, GetParam());
  ops::AdamWState state = initial_state();
  const std::vector<Tensor> good = gradients(1);
  const auto refused = [&](const Tensor& grad) {
    std::vector<Tensor> grads = good;
    grads.back() = grad;
    try {
      ops::adamw(numbers, at::zeros({}, numbers.options().dtype(at::kDouble)), grads, state);
    } catch (const c10::Error&) {
      return true;
    }
    return false;
  };
  const Tensor& last = good.back();
  EXPECT_FALSE(refused(last));
  EXPECT_TRUE(refused(last.slice(0, 1)));
  EXPECT_TRUE(refused(last.to(at::kDouble)));
  EXPECT_TRUE(refused(last.contiguous()));  // the parameter is channels-last
  EXPECT_FALSE(refused(ops::laid_out_like(last.contiguous(), last)));
  EXPECT_THROW(step(numbers, {}, state), c10::Error);
  EXPECT_THROW(step(numbers.slice(0, 1), good, state), c10::Error);
  EXPECT_THROW(norm_of({last.to(at::kDouble)}, GetParam()), c10::Error);
  EXPECT_THROW(norm_of({last.slice(0, 0, 8, 2)}, GetParam()), c10::Error);
  state.copies.back() = state.params.back().clone();  // not bfloat16
  EXPECT_TRUE(refused(last));
}

TEST_P(AdamW, LayoutsAreCopiedOnlyIfTheyDiffer) {
  const Tensor like = gradients(1).back(), other = like.contiguous();
  EXPECT_TRUE(ops::laid_out_like(like, like).is_same(like));
  const Tensor copy = ops::laid_out_like(other, like);
  EXPECT_EQ(copy.strides(), like.strides());
  EXPECT_TRUE(at::equal(copy, other));
  // Strides of dimensions of one element say nothing.
  const Tensor row = at::empty_strided({1, 5}, {5, 1}), same = at::empty_strided({1, 5}, {1, 1});
  EXPECT_TRUE(ops::laid_out_like(row, same).is_same(row));
}

TEST_P(AdamW, NormAgreesWithFloat64) {
  std::vector<Tensor> all;
  double squares = 0;
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const Tensor x = placed(normals(i, kShapes[i]), i);
    const double norm = x.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(norm_of({x}, GetParam()), norm, 1e-12 * norm) << i;
    squares += norm * norm;
    all.push_back(x);
  }
  EXPECT_NEAR(norm_of(all, GetParam()), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  EXPECT_EQ(norm_of({}, GetParam()), 0);
}

TEST_P(AdamW, NormDoesNotOverflowInFloat32) {
  const Tensor large = at::full({4}, 1e30, at::TensorOptions(GetParam()));
  EXPECT_NEAR(norm_of({large}, GetParam()), 2e30, 1e24);  // 1e30 rounded to float32
  large[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(norm_of({large}, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Devices, AdamW, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
