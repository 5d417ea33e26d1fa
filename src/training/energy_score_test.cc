#include "training/energy_score.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tensor/runtime.h"

namespace slift {
namespace {

constexpr std::int64_t kSteps = 3, kMembers = 4, kTruths = 5, kSize = 6;

struct Problem {
  Tensor generated, truth, scale;

  Problem() {
    torch::manual_seed(2);
    generated = torch::randn({kSteps, kMembers, kSize});
    truth = torch::randn({kSteps, kTruths, kSize}) + 3;  // far from 0, where squares would cancel
    scale = at::tensor({0.5f, 1.0f, 2.0f});
  }
  EnergyScore score() const { return energy_score(generated, truth, scale); }
};

// The definition, pair by pair, in double precision.
Tensor score_by_definition(const Tensor& generated, const Tensor& truth, const Tensor& scale) {
  const auto squared = [&](const Tensor& a, const Tensor& b) {  // at each step
    return ((a - b).square().mean(-1) / scale.square());
  };
  // Adds up the mean distance of states, that of trajectories and that of components.
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    const Tensor d = squared(a, b) + 1e-8;
    const Tensor components = (a - b).abs().mean(-1) / scale;
    return d.sqrt().mean() + d.mean().sqrt() + components.mean();
  };
  Tensor sum = at::zeros({}, at::kDouble);
  for (std::int64_t i = 0; i < kMembers; ++i) {
    const Tensor g = generated.select(1, i);
    for (std::int64_t j = 0; j < kTruths; ++j) {
      sum = sum + distance(g, truth.select(1, j)) / (kMembers * kTruths);
    }
    for (std::int64_t k = 0; k < kMembers; ++k) {
      if (k == i) continue;
      sum = sum - distance(g, generated.select(1, k)) / (2 * kMembers * (kMembers - 1));
    }
  }
  return sum;
}

TEST(EnergyScore, ValueAndGradientAreThoseOfTheDefinition) {
  const Problem problem;
  const Tensor generated = problem.generated.to(at::kDouble).requires_grad_();
  const Tensor expected =
      score_by_definition(generated, problem.truth.to(at::kDouble), problem.scale.to(at::kDouble));
  expected.backward();
  const EnergyScore score = problem.score();
  EXPECT_NEAR(score.value.item<double>(), expected.item<double>(), 1e-5);
  const double largest = generated.grad().abs().max().item<double>();
  EXPECT_LT((score.gradient - generated.grad()).abs().max().item<double>(), 1e-4 * largest);
}

// Normal states against normal truths: of the same law, moved, too narrow, too wide; and of steps
// that have the right laws, but nothing to do with each other.
TEST(EnergyScore, IsLeastForTheTrueLaw) {
  torch::manual_seed(4);
  const auto steady = [](std::int64_t members) {
    return torch::randn({1, members, 2}).expand({kSteps, members, 2}).contiguous();
  };
  const Tensor truth = steady(400), members = steady(400), scale = at::ones({kSteps});
  const auto value = [&](const Tensor& generated) {
    return energy_score(generated, truth, scale).value.item<double>();
  };
  const double right = value(members);
  EXPECT_GT(value(members + 0.5), right + 0.02);
  EXPECT_GT(value(members * 0.6), right + 0.02);
  EXPECT_GT(value(members * 1.6), right + 0.02);
  EXPECT_GT(value(torch::randn({kSteps, 400, 2})), right + 0.02);
}

TEST(EnergyScore, EqualMembersHaveAGradientOfNumbers) {
  Problem problem;
  problem.generated.fill_(1);
  problem.truth.select(1, 0).fill_(1);
  EXPECT_TRUE(at::isfinite(problem.score().gradient).all().item<bool>());
}

TEST(EnergyScore, BitsDoNotDependOnThreads) {
  const int before = at::get_num_threads();
  torch::manual_seed(6);
  const Tensor generated = torch::randn({5, 8, 3000}), truth = torch::randn({5, 64, 3000});
  const Tensor scale = at::ones({5});
  set_threads(1);
  const EnergyScore one = energy_score(generated, truth, scale);
  set_threads(3);
  const EnergyScore three = energy_score(generated, truth, scale);
  set_threads(before);
  EXPECT_TRUE(at::equal(one.value, three.value));
  EXPECT_TRUE(at::equal(one.gradient, three.gradient));
}

}  // namespace
}  // namespace slift
