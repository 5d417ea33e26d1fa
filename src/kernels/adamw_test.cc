#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <vector>

#include "kernels/ops.h"

namespace slift {
namespace {

// Empty, tiny, around the lanes of 16 and around the block of 16384 elements.
const std::vector<std::int64_t> kSizes = {0, 1, 7, 15, 16, 17, 1000, 16383, 16384, 16385, 40001};

Tensor normals(std::uint64_t index, std::int64_t size) {
  Tensor values = at::empty({size}, at::kFloat);
  fill_normal({11, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(size)});
  return values;
}

struct Settings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.1, grad_scale = 1,
         ema_decay = 0.9;

  kernels::cpu::AdamWStep at(int t) const {
    const auto f = [](double x) { return static_cast<float>(x); };
    return {f(lr),
            f(1 - beta1),
            f(1 - beta2),
            f(eps),
            f(weight_decay),
            f(1 - std::pow(beta1, t)),
            f(1 - std::pow(beta2, t)),
            f(grad_scale),
            f(1 - ema_decay)};
  }
};

class AdamW : public testing::Test {
 protected:
  ~AdamW() override { at::set_num_threads(threads_); }

  static ops::AdamWState initial_state() {
    ops::AdamWState state;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      state.params.push_back(normals(i, kSizes[i]) / 8);
      state.first.push_back(at::zeros({kSizes[i]}));
      state.second.push_back(at::zeros({kSizes[i]}));
      state.ema.push_back(state.params.back().clone());
    }
    return state;
  }
  static std::vector<Tensor> gradients(int t) {
    std::vector<Tensor> grads;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      grads.push_back(normals(100 * static_cast<std::uint64_t>(t) + i, kSizes[i]));
    }
    return grads;
  }
  static ops::AdamWState run(const Settings& settings, int steps) {
    ops::AdamWState state = initial_state();
    for (int t = 1; t <= steps; ++t) ops::adamw(settings.at(t), gradients(t), state);
    return state;
  }

 private:
  int threads_ = at::get_num_threads();
};

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

constexpr int kSteps = 20;
// Weights below 0.6 carry 20 roundings of at most 3e-8, the decay 1 - lr wd as many of 1e-8 (a
// systematic one).
constexpr double kTolerance = 1e-6;

TEST_F(AdamW, AgreesWithLibTorch) {
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
    EXPECT_LT(largest_difference(got.params[i], params[i].detach()), kTolerance) << kSizes[i];
  }
}

// The formula of kernels.h, in float64, with a clipping scale that matters.
TEST_F(AdamW, AgreesWithFloat64) {
  Settings s;
  s.grad_scale = 0.125;
  s.eps = 1e-3;  // large enough to be seen
  const ops::AdamWState got = run(s, kSteps);
  const ops::AdamWState start = initial_state();
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    Tensor p = start.params[i].to(at::kDouble), ema = p.clone();
    Tensor m = at::zeros_like(p), v = at::zeros_like(p);
    for (int t = 1; t <= kSteps; ++t) {
      const Tensor g = gradients(t)[i].to(at::kDouble) * s.grad_scale;
      p = p * (1 - s.lr * s.weight_decay);
      m = s.beta1 * m + (1 - s.beta1) * g;
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      const Tensor unbiased_m = m / (1 - std::pow(s.beta1, t));
      const Tensor unbiased_v = v / (1 - std::pow(s.beta2, t));
      p = p - s.lr * unbiased_m / (unbiased_v.sqrt() + s.eps);
      ema = s.ema_decay * ema + (1 - s.ema_decay) * p;
    }
    EXPECT_LT(largest_difference(got.params[i], p), kTolerance) << kSizes[i];
    EXPECT_LT(largest_difference(got.first[i], m), kTolerance) << kSizes[i];
    EXPECT_LT(largest_difference(got.second[i], v), kTolerance) << kSizes[i];
    EXPECT_LT(largest_difference(got.ema[i], ema), kTolerance) << kSizes[i];
  }
}

TEST_F(AdamW, EmaEndsAreTheWeightsAndTheStart) {
  Settings s;
  s.ema_decay = 0;
  const ops::AdamWState follows = run(s, 3);
  s.ema_decay = 1;
  const ops::AdamWState stays = run(s, 3);
  const ops::AdamWState start = initial_state();
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    // ema + (p - ema) rounds twice.
    EXPECT_LT(largest_difference(follows.ema[i], follows.params[i]), kTolerance);
    EXPECT_TRUE(at::equal(stays.ema[i], start.ema[i]));
  }
}

TEST_F(AdamW, BitsDoNotDependOnTheNumberOfThreads) {
  const Settings s;
  at::set_num_threads(1);
  const ops::AdamWState one = run(s, 3);
  const double norm = ops::global_norm(gradients(1));
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const ops::AdamWState many = run(s, 3);
    EXPECT_EQ(ops::global_norm(gradients(1)), norm) << threads;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      EXPECT_TRUE(at::equal(many.params[i], one.params[i])) << kSizes[i];
      EXPECT_TRUE(at::equal(many.first[i], one.first[i])) << kSizes[i];
      EXPECT_TRUE(at::equal(many.second[i], one.second[i])) << kSizes[i];
      EXPECT_TRUE(at::equal(many.ema[i], one.ema[i])) << kSizes[i];
    }
  }
}

TEST_F(AdamW, SizesAndTypesAreChecked) {
  const auto step = Settings{}.at(1);
  ops::AdamWState state = initial_state();
  EXPECT_THROW(ops::adamw(step, {}, state), c10::Error);
  std::vector<Tensor> grads = gradients(1);
  grads.back() = grads.back().slice(0, 1);
  EXPECT_THROW(ops::adamw(step, grads, state), c10::Error);
  grads.back() = at::zeros({kSizes.back()}, at::kDouble);
  EXPECT_THROW(ops::adamw(step, grads, state), c10::Error);
  grads.back() = at::zeros({2 * kSizes.back()}).slice(0, 0, 2 * kSizes.back(), 2);
  EXPECT_THROW(ops::adamw(step, grads, state), c10::Error);
  EXPECT_THROW(ops::global_norm({at::zeros({2}, at::kDouble)}), c10::Error);
}

TEST(GlobalNorm, AgreesWithFloat64) {
  std::vector<Tensor> all;
  double squares = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const Tensor x = normals(i, kSizes[i]);
    const double norm = x.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(ops::global_norm({x}), norm, 1e-12 * norm) << kSizes[i];
    squares += norm * norm;
    all.push_back(x);
  }
  EXPECT_NEAR(ops::global_norm(all), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  EXPECT_EQ(ops::global_norm({}), 0);
}

TEST(GlobalNorm, DoesNotOverflowInFloat32) {
  EXPECT_NEAR(ops::global_norm({at::full({4}, 1e30)}), 2e30, 1e24);  // 1e30 rounded to float32
  EXPECT_TRUE(std::isnan(ops::global_norm({at::tensor({1.0f, NAN})})));
}

}  // namespace
}  // namespace slift
