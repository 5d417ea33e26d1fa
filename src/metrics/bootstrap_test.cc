#include "metrics/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace slift {
namespace {

TEST(Bootstrap, ResamplesDrawEveryMemberOnceOnAverage) {
  constexpr std::int64_t n = 200;
  constexpr std::uint32_t replicates = 500;
  std::vector<double> mean(n, 0);
  double never = 0;
  for (std::uint32_t r = 0; r < replicates; ++r) {
    const auto counts = resample_counts(n, 0, r);
    ASSERT_EQ(counts.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), n);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      mean[i] += static_cast<double>(counts[i]) / replicates;
      never += counts[i] == 0 ? 1.0 / (n * replicates) : 0;
    }
  }
  // A count has variance 1 - 1/n.
  for (const double m : mean) EXPECT_NEAR(m, 1, 4.5 / std::sqrt(replicates));
  EXPECT_NEAR(never, std::pow(1 - 1.0 / n, n), 0.005);  // 1/e for large n
}

TEST(Bootstrap, ResamplesAreFixedAndDiffer) {
  EXPECT_EQ(resample_counts(50, 1, 2), resample_counts(50, 1, 2));
  EXPECT_NE(resample_counts(50, 1, 2), resample_counts(50, 1, 3));
  EXPECT_NE(resample_counts(50, 1, 2), resample_counts(50, 0, 2));
}

TEST(Bootstrap, IntervalIsTwoStandardDeviationsAround) {
  const std::vector<double> replicates = {1, 2, 3, 4, 5};  // variance 10/4
  const Interval interval = interval_around(10, replicates);
  EXPECT_DOUBLE_EQ(interval.low, 10 - 1.96 * std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(interval.high, 10 + 1.96 * std::sqrt(2.5));
  EXPECT_EQ(nlohmann::json(Interval{1, 2}).dump(), "[1.0,2.0]");
}

// The mean of n numbers of variance s^2 has the standard error s / sqrt(n).
TEST(Bootstrap, FindsTheStandardErrorOfAMean) {
  constexpr std::int64_t n = 400;
  std::vector<double> means;
  for (std::uint32_t r = 0; r < 400; ++r) {
    const auto counts = resample_counts(n, 0, r);
    double sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      sum += static_cast<double>(counts[i]) * (i % 2 == 0 ? 3.0 : -3.0);
    }
    means.push_back(sum / n);
  }
  const Interval interval = interval_around(0, means);
  EXPECT_NEAR(interval.high, 1.96 * 3 / std::sqrt(n), 4 * 0.294 / std::sqrt(2 * 400.0));
}

}  // namespace
}  // namespace slift
