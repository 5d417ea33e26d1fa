#include "metrics/rank_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "metrics/testing.h"

namespace slift {
namespace {

using Counts = std::vector<std::int64_t>;

Values uniforms(std::size_t n, std::uint64_t index) {
  Values u(n);
  fill_uniform({13, Purpose::kBootstrap, index, 0}, u);
  return u;
}

TEST(RankHistogram, ByHand) {
  RankHistogram ranks(4);  // a bin a rank
  const Values x = {1, 2, 5};
  ranks.add(x, Values{3, 0, 9, 1.5f, 2.5f}, Values{0.9f, 0.01f, 0.5f, 0.01f, 0.99f});
  EXPECT_EQ(ranks.counts(), (Counts{1, 1, 2, 1}));
  EXPECT_EQ(ranks.total(), 5);
  ranks.add(x, Values{9, -9}, Values{1, 1});  // the largest uniform there is: the next bin, if any
  EXPECT_EQ(ranks.counts(), (Counts{1, 2, 2, 2}));
  // A group of other size: ranks 0 and 1 of one member are the lower and upper half.
  ranks.add(Values{0}, Values{-1, -1, 1, 1}, Values{0.4f, 0.6f, 0.4f, 0.6f});
  EXPECT_EQ(ranks.counts(), (Counts{2, 3, 3, 3}));
}

TEST(RankHistogram, TiesAreBrokenByTheUniform) {
  // 2 among {1, 2, 2, 5}: ranks 1, 2 or 3.
  const Values x = {1, 2, 2, 5};
  RankHistogram ranks(5);
  ranks.add(x, Values(6, 2), Values{0.1f, 0.3f, 0.4f, 0.6f, 0.7f, 0.99f});
  EXPECT_EQ(ranks.counts(), (Counts{0, 2, 2, 2, 0}));
}

TEST(RankHistogram, Unevenness) {
  RankHistogram even(2), one_sided(4), odd(2);
  EXPECT_TRUE(std::isnan(even.unevenness()));
  even.add(Values{0}, Values{-1, 1}, Values{0.5f, 0.5f});
  EXPECT_EQ(even.unevenness(), 0);
  one_sided.add(Values{0}, Values{-1, -1}, Values{0.1f, 0.1f});
  EXPECT_DOUBLE_EQ(one_sided.unevenness(), std::sqrt(3.0));
  odd.add(Values{0}, Values{-1, 1, 1, 1}, Values(4, 0.5f));
  EXPECT_DOUBLE_EQ(odd.unevenness(), 0.5);  // shares 1/4 and 3/4 instead of 1/2
}

TEST(RankHistogram, ReliableEnsemblesAreFlat) {
  // Continuous values, and rounded ones, mostly ties.
  constexpr std::size_t groups = 20000;
  for (const std::size_t n : {1u, 4u, 20u}) {
    for (const bool round : {false, true}) {
      RankHistogram ranks(10);
      for (std::uint64_t g = 0; g < groups; ++g) {
        Values draws = normals(n + 1, 1000 * n + g);
        if (round) {
          for (float& v : draws) v = std::round(v);
        }
        const Values y = {draws.back()};
        draws.pop_back();
        ranks.add(sorted(draws), y, uniforms(1, g));
      }
      EXPECT_DOUBLE_EQ(ranks.expected_unevenness(), std::sqrt(9.0 / groups));
      // Its square over the expected one is chi-squared of 9 degrees of freedom, over 9.
      EXPECT_LT(ranks.unevenness(), 1.8 * ranks.expected_unevenness()) << n << round;
      EXPECT_GT(ranks.unevenness(), 0.3 * ranks.expected_unevenness()) << n << round;
    }
  }
}

TEST(RankHistogram, ExpectedUnevennessCountsSharedEnsembles) {
  // 5 bins divide n + 1 in both: exact.
  for (const std::size_t n : {9u, 49u}) {
    SampleMean square;
    double expected = 0;
    for (std::uint64_t trial = 0; trial < 2000; ++trial) {
      RankHistogram ranks(5);
      for (std::uint64_t g = 2 * trial; g < 2 * trial + 2; ++g) {
        ranks.add(sorted(normals(n, 2 * g)), normals(40, 2 * g + 1), uniforms(40, g));
      }
      square.add(std::pow(ranks.unevenness(), 2));
      expected = ranks.expected_unevenness();
    }
    const auto members = static_cast<double>(n);
    EXPECT_DOUBLE_EQ(expected, std::sqrt(4 * (80 + 80 * 39 / (members + 2))) / 80);
    EXPECT_NEAR(square.value(), expected * expected, 4 * square.error()) << n;
    EXPECT_LT(square.error(), 0.03 * square.value());  // or the line above says little
  }
}

TEST(RankHistogram, ShapesTellTheFault) {
  const Values y = normals(20000, 0), u = uniforms(y.size(), 0);
  const auto shares = [&](float mean, float scale) {
    RankHistogram ranks(5);
    ranks.add(sorted(normals(1999, 1, mean, scale)), y, u);
    std::vector<double> s;
    for (const std::int64_t count : ranks.counts()) {
      s.push_back(static_cast<double>(count) / static_cast<double>(y.size()));
    }
    return s;
  };
  const auto narrow = shares(0, 0.5f), wide = shares(0, 2), low = shares(-1, 1);
  // 1 - Phi(q / 2) with Phi(q) = 0.8, and the like; known to about sqrt(0.2 * 0.8 / 2000) = 0.009.
  EXPECT_NEAR(narrow.front(), 0.3370, 0.03);
  EXPECT_NEAR(narrow.back(), 0.3370, 0.03);
  EXPECT_NEAR(wide.front(), 0.0462, 0.02);
  EXPECT_NEAR(wide.back(), 0.0462, 0.02);
  EXPECT_NEAR(low.front(), 0.0328, 0.02);
  EXPECT_NEAR(low.back(), 0.5629, 0.05);
}

TEST(RankHistogram, RefusesWhatCannotBeRanked) {
  EXPECT_THROW(RankHistogram(0), std::logic_error);
  RankHistogram ranks(3);
  EXPECT_THROW(ranks.add(Values{}, Values{1}, Values{0.5f}), std::logic_error);
  EXPECT_THROW(ranks.add(Values{1}, Values{1, 2}, Values{0.5f}), std::logic_error);
  EXPECT_EQ(ranks.counts(), (Counts{0, 0, 0}));
}

}  // namespace
}  // namespace slift
