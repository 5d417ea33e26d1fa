#include "metrics/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "metrics/testing.h"

namespace slift {
namespace {

using Levels = std::vector<double>;

TEST(Quantiles, ByHand) {
  const Levels levels = {0.5, 0, 1, 0.25, 0.1};
  EXPECT_EQ(quantiles(Values{1, 2, 4, 8, 16}, levels), (Levels{4, 1, 16, 2, 1.4}));
  EXPECT_EQ(quantiles(Values{1, 2, 4, 8}, Levels{0.5, 1}), (Levels{3, 8}));
  EXPECT_EQ(quantiles(Values{7}, Levels{0, 0.3, 1}), (Levels{7, 7, 7}));
  EXPECT_EQ(quantiles(Values{7}, Levels{}), Levels{});
}

TEST(Quantiles, OfNormalsAreTheClosedForm) {
  // Standard error sqrt(p (1 - p) / n) over the density there.
  constexpr std::size_t n = 40000;
  const auto got = quantiles(sorted(normals(n, 0)), Levels{0.05, 0.5, 0.95});
  EXPECT_NEAR(got[0], -1.6448536, 4 * std::sqrt(0.05 * 0.95 / n) / 0.1031);
  EXPECT_NEAR(got[1], 0, 4 * 0.5 / std::sqrt(n) / 0.3989);
  EXPECT_NEAR(got[2], 1.6448536, 4 * std::sqrt(0.05 * 0.95 / n) / 0.1031);
}

TEST(Quantiles, RefusesEmptySamplesAndOtherLevels) {
  EXPECT_THROW(quantiles(Values{}, Levels{0.5}), std::logic_error);
  for (const double level : {-0.1, 1.1, std::nan("")}) {
    EXPECT_THROW(quantiles(Values{1}, Levels{level}), std::logic_error) << level;
  }
}

}  // namespace
}  // namespace slift
