#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kMembers = 11, kSteps = 6, kWindow = 3;
constexpr std::int64_t kTransitions = kMembers * (kSteps - 1);

// Every number tells where it comes from.
float value(std::int64_t member, std::int64_t step, std::int64_t component) {
  return static_cast<float>(100000 * member + 10000 * step + component);
}

// The parameter is the width of a state: 1400 makes trajectories so large that each is shuffled on
// its own, 900 blocks of 3 (and a last one of 2), 2 a single block.
class SamplerTest : public testing::TestWithParam<std::int64_t> {
 protected:
  SamplerTest() : reader_(write(folder_ / "x.h5", kSteps)) {}

  TrajectoryReader write(const std::filesystem::path& path, std::int64_t steps) const {
    TrajectoryInfo info;
    info.members = kMembers, info.steps = steps, info.state_shape = {width_};
    std::vector<float> states;
    for (std::int64_t m = 0; m < kMembers; ++m)
      for (std::int64_t t = 0; t < steps; ++t)
        for (std::int64_t c = 0; c < width_; ++c) states.push_back(value(m, t, c));
    TrajectoryWriter writer(path, info);
    writer.write(0, kMembers, states);
    writer.commit();
    return TrajectoryReader(path);
  }

  TransitionSampler sampler(std::int64_t pool_members, std::uint64_t seed = 5) {
    // Streamed data take two pools: one in use, one being read.
    const std::int64_t pools = pool_members == kMembers ? 1 : 2;
    return TransitionSampler(reader_, kMembers, kWindow, seed, pools * pool_members * bytes_);
  }

  // Transitions at positions 0 .. count-1 of the random order.
  static std::vector<std::int64_t> order(TransitionSampler&& sampler, std::int64_t count,
                                         std::int64_t batch_size) {
    std::vector<std::int64_t> result;
    Batch batch;
    for (std::int64_t i = 0; i * batch_size < count; ++i) {
      sampler.fill(i * batch_size, batch_size, batch);
      result.insert(result.end(), batch.transition.begin(), batch.transition.end());
    }
    result.resize(static_cast<std::size_t>(count));
    return result;
  }

  const std::int64_t width_ = GetParam(), bytes_ = kSteps * width_ * 4;
  TestFolder folder_;
  TrajectoryReader reader_;
};

std::vector<std::int64_t> sorted(std::span<const std::int64_t> x) {
  std::vector<std::int64_t> copy(x.begin(), x.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

std::vector<std::int64_t> all(std::int64_t count) {
  std::vector<std::int64_t> x(static_cast<std::size_t>(count));
  std::iota(x.begin(), x.end(), 0);
  return x;
}

// Pools of 11 (resident), 5 (the last has 1), 4, 3 (the last has 2), 1.
constexpr std::int64_t kPools[] = {11, 5, 4, 3, 1};

TEST_P(SamplerTest, EachEpochVisitsEveryTransitionOnce) {
  for (const std::int64_t pool : kPools) {
    const auto visited = order(sampler(pool), 3 * kTransitions, 7);  // batches straddle epochs
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      const auto one = std::span(visited).subspan(epoch * kTransitions, kTransitions);
      EXPECT_EQ(sorted(one), all(kTransitions)) << "pool " << pool << ", epoch " << epoch;
      EXPECT_FALSE(std::is_sorted(one.begin(), one.end()));
    }
  }
}

TEST_P(SamplerTest, EpochsAndSeedsDiffer) {
  for (const std::int64_t pool : kPools) {
    const auto a = order(sampler(pool), 2 * kTransitions, 7);
    const auto b = order(sampler(pool, 6), kTransitions, 7);
    int same_epoch = 0, same_seed = 0;
    for (std::size_t i = 0; i < kTransitions; ++i) {
      same_epoch += a[i] == a[i + kTransitions];
      same_seed += a[i] == b[i];
    }
    // Poisson; expected 1, or 1 a pool where pools are the same each time: at most 11.
    EXPECT_LT(same_epoch, 25) << "pool " << pool;
    EXPECT_LT(same_seed, 25) << "pool " << pool;
  }
}

TEST_P(SamplerTest, PoolsHoldFewTrajectories) {
  // The first pool of 3 trajectories is used up before another trajectory is seen.
  const auto visited = order(sampler(3), 3 * (kSteps - 1), 1);
  std::vector<std::int64_t> members;
  for (const std::int64_t k : visited) members.push_back(k / (kSteps - 1));
  members = sorted(members);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  EXPECT_EQ(members.size(), 3u);
  if (width_ > 1000) {
    EXPECT_NE(members, all(3)) << "trajectories must be walked in random order";
  }
}

TEST_P(SamplerTest, PoolsAreShuffledEachInItsOwnWay) {
  // Pools of one trajectory: the order of its steps is that of the pool's shuffle.
  const auto visited = order(sampler(1), kTransitions, 1);
  std::set<std::vector<std::int64_t>> orders;
  for (std::size_t first = 0; first < visited.size(); first += kSteps - 1) {
    std::vector<std::int64_t> steps;
    for (std::size_t i = first; i < first + kSteps - 1; ++i) {
      steps.push_back(visited[i] % (kSteps - 1));
    }
    orders.insert(steps);
  }
  EXPECT_GT(orders.size(), 5u) << "11 pools, 120 possible orders";
}

TEST_P(SamplerTest, BatchIsADirectGather) {
  for (const std::int64_t pool : kPools) {
    TransitionSampler s = sampler(pool);
    Batch batch;
    std::vector<int> seen_step(kSteps, 0);
    for (std::int64_t iteration = 0; iteration < 10; ++iteration) {
      s.fill(9 * iteration, 9, batch);
      ASSERT_EQ(batch.transition.size(), 9u);
      ASSERT_EQ(batch.window.size(), static_cast<std::size_t>(9 * kWindow * width_));
      ASSERT_EQ(batch.next.size(), static_cast<std::size_t>(9 * width_));
      const float *window = batch.window.data(), *next = batch.next.data();
      for (const std::int64_t k : batch.transition) {
        const std::int64_t member = k / (kSteps - 1), t = k % (kSteps - 1);
        ++seen_step[static_cast<std::size_t>(t)];
        // t = 0 sees state 0 three times, t = 1 twice.
        for (const std::int64_t step :
             {std::max<std::int64_t>(t - 2, 0), std::max<std::int64_t>(t - 1, 0), t}) {
          for (std::int64_t c = 0; c < width_; ++c) ASSERT_EQ(*window++, value(member, step, c));
        }
        for (std::int64_t c = 0; c < width_; ++c) ASSERT_EQ(*next++, value(member, t + 1, c));
      }
    }
    EXPECT_GT(seen_step[0], 0);
    EXPECT_GT(seen_step[1], 0);
    EXPECT_EQ(seen_step[kSteps - 1], 0) << "the last state has no next one";
  }
}

TEST_P(SamplerTest, FillIsAPureFunctionOfThePosition) {
  for (const std::int64_t pool : kPools) {
    TransitionSampler wandering = sampler(pool);
    for (const std::int64_t first : {91, 14, 210, 14, 0, 217, 49, 56, 7000000}) {
      Batch a, b;
      wandering.fill(first, 7, a);
      TransitionSampler fresh = sampler(pool);
      fresh.fill(first, 7, b);
      EXPECT_EQ(a.transition, b.transition) << "pool " << pool << ", position " << first;
      EXPECT_EQ(a.window, b.window);
      EXPECT_EQ(a.next, b.next);
    }
  }
}

TEST_P(SamplerTest, OrderDoesNotDependOnTheBatchSize) {
  for (const std::int64_t pool : kPools) {
    const auto a = order(sampler(pool), 2 * kTransitions, 1);
    EXPECT_EQ(order(sampler(pool), 2 * kTransitions, 7), a);
    EXPECT_EQ(order(sampler(pool), 2 * kTransitions, 200), a) << "more than an epoch in a batch";
  }
}

TEST_P(SamplerTest, TransitionsAreKnownWithoutDataIfAllFit) {
  const TransitionSampler whole = sampler(kMembers);
  const auto expected = order(sampler(kMembers), 2 * kTransitions, 7);
  for (std::int64_t i = 0; i < 2 * kTransitions; ++i) {
    EXPECT_EQ(whole.transition_at(i), expected[static_cast<std::size_t>(i)]);
  }
  EXPECT_THROW(sampler(3).transition_at(0), std::logic_error);
}

TEST_P(SamplerTest, CanBeDestroyedWhileAPoolIsBeingRead) {
  for (int i = 0; i < 20; ++i) {
    TransitionSampler s = sampler(3);
    Batch batch;
    s.fill(0, 1, batch);
  }
}

TEST_P(SamplerTest, MemoryIsBounded) {
  for (std::int64_t bytes = 0; bytes < 13 * bytes_; bytes += bytes_ / 3) {
    const TransitionSampler s(reader_, kMembers, kWindow, 1, bytes);
    const std::int64_t fits = bytes / bytes_;
    EXPECT_EQ(s.is_whole(), fits >= kMembers) << bytes;
    EXPECT_EQ(s.pool_members(), fits >= kMembers ? kMembers : std::max<std::int64_t>(fits / 2, 1))
        << bytes;
  }
}

TEST_P(SamplerTest, UsesTheFirstMembersOnly) {
  for (const std::int64_t fit : {100, 4}) {
    TransitionSampler s(reader_, 5, kWindow, 1, fit * bytes_);
    EXPECT_EQ(s.transitions(), 25);
    EXPECT_EQ(s.pool_members(), fit == 100 ? 5 : 2);
    EXPECT_EQ(sorted(order(std::move(s), 25, 4)), all(25));
  }
}

TEST_P(SamplerTest, OneStateIsNoTransition) {
  const TrajectoryReader reader = write(folder_ / "one.h5", 1);
  try {
    TransitionSampler(reader, kMembers, kWindow, 1, 1 << 20);
    FAIL() << "must throw";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("one.h5"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, SamplerTest, testing::Values(1400, 900, 2));

TEST(CopyWindow, RepeatsTheFirstState) {
  const std::vector<float> trajectory = {1, 2, 3, 4, 5, 6, 7, 8};  // 4 states of 2
  const auto window = [&](std::int64_t t, std::int64_t m) {
    std::vector<float> out(static_cast<std::size_t>(2 * m));
    copy_window(trajectory.data(), 2, t, m, out.data());
    return out;
  };
  using Values = std::vector<float>;
  EXPECT_EQ(window(0, 3), (Values{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(window(1, 3), (Values{1, 2, 1, 2, 3, 4}));
  EXPECT_EQ(window(2, 3), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(window(3, 3), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(window(3, 1), (Values{7, 8}));
}

}  // namespace
}  // namespace slift
