#include "metrics/crps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "metrics/testing.h"

namespace slift {
namespace {

// The definition, pair by pair.
double fair_crps_of_pairs(const Values& x, const Values& y) {
  double between = 0, within = 0;
  for (const double a : x) {
    for (const double b : y) between += std::abs(a - b);
    for (const double b : x) within += std::abs(a - b);
  }
  const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
  return between / (n * m) - within / (2 * n * (n - 1));
}

// Of N(0, 1) against y (Gneiting and Raftery, JASA 102, 2007).
double normal_crps(double y) {
  const double density = std::exp(-y * y / 2) / std::sqrt(2 * std::numbers::pi);
  return y * std::erf(y / std::numbers::sqrt2) + 2 * density - 1 / std::sqrt(std::numbers::pi);
}

TEST(FairCrps, ByHand) {
  // Mean distance of {0, 4} from 1 is 2, half their own mean distance 2.
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 4}, Values{1}), 0.0);
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 4}, Values{6}), 2.0);
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 4}, Values{-1}), 1.0);
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 4}, Values{-1, 1, 6}), 1.0);
  EXPECT_DOUBLE_EQ(fair_crps(Values{2, 2}, Values{5}), 3.0);  // collapsed: the absolute error
  // {0, 1, 3}: half the mean distance of two members is 1.
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 1, 3}, Values{1}), 0.0);
  EXPECT_DOUBLE_EQ(fair_crps(Values{0, 1, 3}, Values{10}), 26.0 / 3 - 1);
}

TEST(FairCrps, IsTheDefinition) {
  for (const std::size_t n : {2u, 3u, 40u}) {
    for (const std::size_t m : {1u, 2u, 25u}) {
      const Values x = sorted(normals(n, n)), y = sorted(normals(m, 100 + m, 0.4f, 2));
      EXPECT_NEAR(fair_crps(x, y), fair_crps_of_pairs(x, y), 1e-12) << n << ", " << m;
    }
  }
}

TEST(FairCrps, FarFromZeroNothingCancels) {
  // Steps of 1/4 are exact beside 2^20.
  const Values x = {0, 0.25f, 1}, y = {-0.5f, 0.75f};
  Values far_x = x, far_y = y;
  for (float& v : far_x) v += 0x1p20f;
  for (float& v : far_y) v += 0x1p20f;
  EXPECT_NEAR(fair_crps(far_x, far_y), fair_crps(x, y), 1e-14);
}

TEST(FairCrps, OfANormalEnsembleIsTheClosedForm) {
  // Members enter through |x - y| - E|x - x'|, of standard deviation below 1: the error is below
  // 1/sqrt(n).
  constexpr std::size_t n = 40000;
  const Values x = sorted(normals(n, 0));
  for (const float y : {-2.0f, -0.3f, 0.0f, 1.0f, 4.0f}) {
    EXPECT_NEAR(fair_crps(x, Values{y}), normal_crps(y), 4 / std::sqrt(n)) << y;
  }
}

TEST(FairCrps, ExpectedScoreDoesNotDependOnTheEnsembleSize) {
  // The plain score, with n^2 instead of n (n - 1), is larger by 1/(n sqrt(pi)): 0.28 for n = 2.
  const float y = 0.7f;
  for (const std::size_t n : {2u, 3u, 50u}) {
    SampleMean score;
    const std::size_t ensembles = 40000 / n;
    for (std::uint64_t i = 0; i < ensembles; ++i) {
      score.add(fair_crps(sorted(normals(n, 1000 * n + i)), Values{y}));
    }
    EXPECT_NEAR(score.value(), normal_crps(y), 4 * score.error()) << n;
    EXPECT_LT(score.error(), 0.01);  // or the line above says little
  }
}

TEST(FairCrps, IsLeastForTheTruth) {
  const Values y = sorted(normals(4000, 0));
  const double truth = fair_crps(sorted(normals(4000, 1)), y);
  EXPECT_LT(truth, fair_crps(sorted(normals(4000, 1, 0.5f)), y) - 0.01);
  EXPECT_LT(truth, fair_crps(sorted(normals(4000, 1, 0, 0.5f)), y) - 0.01);
  EXPECT_LT(truth, fair_crps(sorted(normals(4000, 1, 0, 2)), y) - 0.01);
}

TEST(FairCrps, NeedsTwoMembersAndAVerification) {
  EXPECT_THROW(fair_crps(Values{1}, Values{1}), std::logic_error);
  EXPECT_THROW(fair_crps(Values{1, 2}, Values{}), std::logic_error);
}

// A member that diverged is one of n, however far off it is: what it adds to the distance from the
// truth it also adds to that of the members from each other.
TEST(FairCrps, ALoneOutlierCountsByItsRankAlone) {
  const Values x = sorted(normals(50, 1)), y = sorted(normals(80, 2));
  Values far = x;
  const double expected = [&] {
    far.back() = 100;
    return fair_crps(far, y);
  }();
  EXPECT_GT(expected, 0.3);
  for (const float outlier : {1e6f, 1e22f, 3e38f}) {
    far.back() = outlier;
    EXPECT_DOUBLE_EQ(fair_crps(far, y), expected);
  }
}

}  // namespace
}  // namespace slift
