#include "training/rollout_score.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "core/errors.h"
#include "core/random.h"
#include "core/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kTrajectories = 6, kStates = 5, kWindow = 2, kRolledOut = 4;

// Random walks of two components in different units, from random starts.
class RolloutScoreTest : public testing::Test {
 protected:
  RolloutScoreTest() {
    TrajectoryInfo info;
    info.members = kTrajectories;
    info.steps = kStates;
    info.state_shape = {2};
    config_.path = (folder_ / "walks.h5").string();
    states_ = at::empty({kTrajectories, kStates, 2});
    const std::span<float> values(states_.data_ptr<float>(),
                                  static_cast<std::size_t>(states_.numel()));
    fill_normal({2, Purpose::kSystemNoise, 0, 0}, values);
    states_.copy_((states_.cumsum(1) * at::tensor({1.0f, 100.0f})));
    TrajectoryWriter writer(config_.path, info);
    writer.write(0, kTrajectories, values);
    writer.commit();

    config_.seed = 3;
    config_.score = {.from = 0, .weight = 0.25, .members = 3, .truths = 4, .steps = 0};
    spec_.net.window = kWindow;
    spec_.net.width = 8;
    spec_.net.layers = 2;
    spec_.state_shape = {2};
    spec_.method.lifting = {.dimension = 3, .persistent = 2};
    spec_.normaliser = {{0.0f, 1.0f}, {2.0f, 200.0f}, {1.0f, 100.0f}};
    spec_.data = {{"steps", kStates}};
  }

  TransitionModel model() const {
    TransitionModel result(spec_);
    result.backbone().initialise(1);
    return result;
  }
  RolloutScore score(const TransitionModel& of) const {
    return {config_, TrajectoryReader(config_.path), kTrajectories, 1 << 20, of};
  }

  TestFolder folder_;
  Tensor states_;
  TrainConfig config_;
  ModelSpec spec_;
};

TEST_F(RolloutScoreTest, StepsAreThoseOfRolloutsFromTrueStarts) {
  const torch::NoGradGuard no_grad;
  const TransitionModel of = model();
  RolloutScore score = this->score(of);
  score.stage(7);
  const ScoredSteps steps = score.roll_out(0, 3);
  const Tensor window = steps.window.view({3, kRolledOut, kWindow, 2});
  const Tensor numbers = steps.numbers.view({3, kRolledOut, 3});
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor start = window[i][0][1];
    EXPECT_TRUE(at::equal(window[i][0][0], start)) << "before the start is the start";
    EXPECT_TRUE((states_.select(1, 0) == start).all(1).any().item<bool>());
    for (std::int64_t t = 0; t + 1 < kRolledOut; ++t) {
      const Tensor next =
          of.forward(window[i][t].unsqueeze(0), numbers[i][t].unsqueeze(0)).squeeze(0);
      EXPECT_TRUE(at::allclose(window[i][t + 1][1], next, 1e-5, 1e-5));
      EXPECT_TRUE(at::equal(window[i][t + 1][0], window[i][t][1]));
      // Two of three components stay with the member.
      EXPECT_TRUE(at::equal(numbers[i][t + 1].narrow(0, 0, 2), numbers[i][t].narrow(0, 0, 2)));
      EXPECT_FALSE(at::equal(numbers[i][t + 1][2], numbers[i][t][2]));
    }
  }
  EXPECT_FALSE(at::equal(numbers[0], numbers[1]));
}

// Compares with the score of the same rollout, put together by hand.
TEST_F(RolloutScoreTest, PullIsTheDerivativeOfTheWeightedScore) {
  const TransitionModel of = model();
  RolloutScore score = this->score(of);
  score.stage(1);
  const ScoredSteps steps = score.roll_out(0, 3);
  const Tensor pull = steps.pull.view({3, kRolledOut, 2});
  ASSERT_GT(pull.abs().max().item<double>(), 0);
  // Components are pulled in their own units.
  const Tensor size = pull.abs().mean(at::IntArrayRef({0, 1}));
  EXPECT_GT(size[0].item<double>(), 20 * size[1].item<double>());

  // By hand: the states of the rollout and of the chosen truths.
  const torch::NoGradGuard no_grad;
  const Tensor std = at::tensor(spec_.normaliser.std);
  Tensor path = at::empty({kStates, 3, 2});
  const Tensor window = steps.window.view({3, kRolledOut, kWindow, 2});
  for (std::int64_t t = 0; t < kRolledOut; ++t) {
    path[t].copy_(window.select(1, t).select(1, kWindow - 1));
  }
  path[kRolledOut].copy_(
      of.forward(window.select(1, kRolledOut - 1),
                 steps.numbers.view({3, kRolledOut, 3}).select(1, kRolledOut - 1)));
  float uniform[3 + 4];
  fill_uniform({3, Purpose::kScoredTrajectories, 1}, uniform);
  Tensor truth = at::empty({kStates, 4, 2});
  for (std::int64_t j = 0; j < 4; ++j) {
    truth.select(1, j).copy_(states_[static_cast<std::int64_t>(uniform[3 + j] * kTrajectories)]);
  }
  const Tensor scaled = states_ / std;
  const Tensor scale = (scaled - scaled.mean(0)).square().mean(at::IntArrayRef({0, 2})).sqrt();
  const EnergyScore expected = energy_score(path / std, truth / std, scale);
  EXPECT_NEAR(steps.score.item<double>(), expected.value.item<double>(), 1e-5);
  const Tensor by_hand = (expected.gradient * 0.25 / std).narrow(0, 1, kRolledOut).transpose(0, 1);
  EXPECT_TRUE(at::allclose(pull, by_hand, 1e-4, 1e-7));
}

TEST_F(RolloutScoreTest, IterationsDrawMembersAndTrajectoriesAnew) {
  const TransitionModel of = model();
  RolloutScore score = this->score(of);
  score.stage(1);
  const ScoredSteps first = score.roll_out(0, 3);
  score.stage(2);
  const ScoredSteps second = score.roll_out(0, 3);
  score.stage(1);
  const ScoredSteps again = score.roll_out(0, 3), last = score.roll_out(2, 1);
  EXPECT_FALSE(at::equal(first.numbers, second.numbers));
  EXPECT_FALSE(at::equal(first.window, second.window));
  EXPECT_TRUE(at::equal(first.numbers, again.numbers));
  EXPECT_TRUE(at::equal(first.pull, again.pull));
  // The share of a rank.
  EXPECT_TRUE(at::equal(last.pull, first.pull.narrow(0, 2 * kRolledOut, kRolledOut)));
  EXPECT_TRUE(at::equal(last.window, first.window.narrow(0, 2 * kRolledOut, kRolledOut)));
}

TEST_F(RolloutScoreTest, ARolloutWithoutBoundsPullsNowhere) {
  TransitionModel of = model();
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& p : of.backbone().parameters()) p.fill_(1e30f);
  }
  RolloutScore score = this->score(of);
  score.stage(1);
  EXPECT_TRUE(at::isfinite(score.roll_out(0, 3).pull).all().item<bool>());
}

TEST_F(RolloutScoreTest, TrajectoriesMustDiffer) {
  states_.copy_(states_.narrow(0, 0, 1).expand_as(states_).clone());
  TrajectoryInfo info = TrajectoryReader(config_.path).info();
  TrajectoryWriter writer(config_.path, info);
  writer.write(0, kTrajectories,
               {states_.data_ptr<float>(), static_cast<std::size_t>(states_.numel())});
  writer.commit();
  const TransitionModel of = model();
  EXPECT_EQ(error_of([&] { score(of); }),
            "score.from: all trajectories are the same, there is nothing to score");
}

}  // namespace
}  // namespace slift
