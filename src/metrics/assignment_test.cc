#include "metrics/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/random.h"

namespace slift {
namespace {

double cost_of(const std::vector<float>& cost, const std::vector<std::int32_t>& column) {
  double total = 0;
  for (std::size_t i = 0; i < column.size(); ++i) {
    total += cost[i * column.size() + static_cast<std::size_t>(column[i])];
  }
  return total;
}

void expect_permutation(std::vector<std::int32_t> x) {
  std::sort(x.begin(), x.end());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], static_cast<std::int32_t>(i));
}

double least_by_trying_all(const std::vector<float>& cost, std::size_t n) {
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    least = std::min(least, cost_of(cost, order));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

void expect_least(const std::vector<float>& cost, std::size_t n) {
  const auto got = solve_assignment(cost, static_cast<std::int64_t>(n));
  ASSERT_EQ(got.size(), n);
  expect_permutation(got);
  ASSERT_NEAR(cost_of(cost, got), least_by_trying_all(cost, n), 1e-9);
}

TEST(Assignment, LeastOfAllPermutations) {
  for (std::size_t n = 1; n <= 7; ++n) {
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
      std::vector<float> cost(n * n);
      fill_normal({n, Purpose::kBootstrap, trial, 0}, cost);  // negative costs too
      expect_least(cost, n);
    }
  }
}

TEST(Assignment, TiesAndForbiddenLookingCosts) {
  for (std::size_t n = 2; n <= 7; ++n) {
    expect_least(std::vector<float>(n * n, 3.0f), n);
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
      std::vector<float> cost(n * n);
      fill_uniform({n, Purpose::kBootstrap, trial, 1}, cost);
      for (float& x : cost) x = std::floor(3 * x);  // 0, 1, 2
      if (trial % 2 == 0) {
        for (std::size_t i = 0; i < n; ++i) cost[i * n] = 1e6f;  // one column everybody avoids
      }
      expect_least(cost, n);
    }
  }
}

TEST(Assignment, SmallestSizes) {
  EXPECT_EQ(solve_assignment(std::vector<float>{-4}, 1), std::vector<std::int32_t>{0});
  EXPECT_TRUE(solve_assignment({}, 0).empty());
  // Row 0 must give way: the greedy choice costs 1 + 10, the best one 2 + 3.
  EXPECT_EQ(solve_assignment(std::vector<float>{1, 2, 3, 10}, 2),
            (std::vector<std::int32_t>{1, 0}));
}

TEST(Assignment, FindsAPermutedCopy) {
  constexpr std::size_t n = 200;
  std::vector<float> points(2 * n), cost(n * n);
  fill_normal({1, Purpose::kBootstrap, 0, 0}, points);
  const Permutation shuffle(3, 0, n);  // point i stands at place shuffle(i) of the copy
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const float dx = points[2 * i] - points[2 * j], dy = points[2 * i + 1] - points[2 * j + 1];
      cost[i * n + shuffle(j)] = dx * dx + dy * dy;
    }
  }
  const auto got = solve_assignment(cost, n);
  EXPECT_EQ(cost_of(cost, got), 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(got[i], static_cast<std::int32_t>(shuffle(i)));
  }
}

TEST(Assignment, CostsMustBeFinite) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_THROW(solve_assignment(std::vector<float>{1, 1, inf, inf}, 2), std::logic_error);
  EXPECT_THROW(solve_assignment(std::vector<float>{1, 1, nan, nan}, 2), std::logic_error);
}

}  // namespace
}  // namespace slift
