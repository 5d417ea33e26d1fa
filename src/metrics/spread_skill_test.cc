#include "metrics/spread_skill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "metrics/testing.h"

namespace slift {
namespace {

TEST(SpreadSkill, ByHand) {
  SpreadSkill score;
  EXPECT_TRUE(std::isnan(score.ratio()));
  // Mean 2, variance 2, corrected 3; squared errors 1 and 9.
  score.add(Values{3, 1}, Values{3, 5});
  EXPECT_DOUBLE_EQ(score.spread(), std::sqrt(3.0));
  EXPECT_DOUBLE_EQ(score.error(), std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(score.ratio(), std::sqrt(0.6));
  // Mean 0, variance 3, corrected 4; squared error 1. Both groups count alike.
  score.add(Values{-1, -1, 2}, Values{-1});
  EXPECT_DOUBLE_EQ(score.spread(), std::sqrt(3.5));
  EXPECT_DOUBLE_EQ(score.error(), std::sqrt(3.0));
}

TEST(SpreadSkill, IsOneForExchangeableSamplesOfAnySize) {
  // Each group has its own mean and scale. Without (n + 1) / n the ratio for n = 2 were 0.82. The
  // squares vary by sqrt(3) or less of their weighted mean, so the ratio by about sqrt(3 / groups).
  constexpr std::size_t groups = 20000;
  for (const std::size_t n : {2u, 5u}) {
    SpreadSkill score;
    for (std::uint64_t g = 0; g < groups; ++g) {
      const float mean = static_cast<float>(g % 7), scale = 1 + static_cast<float>(g % 3);
      const Values draws = normals(n + 1, g, mean, scale);
      score.add(std::span(draws).first(n), std::span(draws).last(1));
    }
    EXPECT_NEAR(score.ratio(), 1, 4 * std::sqrt(3.0 / groups)) << n;
  }
}

TEST(SpreadSkill, TellsCollapseAndExcess) {
  SpreadSkill collapsed, halved, doubled;
  for (std::uint64_t g = 0; g < 2000; ++g) {
    const Values y = normals(50, 2 * g);
    collapsed.add(Values(10, 0.1f), y);
    halved.add(normals(50, 2 * g + 1, 0, 0.5f), y);
    doubled.add(normals(50, 2 * g + 1, 0, 2), y);
  }
  EXPECT_NEAR(collapsed.ratio(), 0, 1e-6);
  // Spread^2 is (1 + 1/n) s^2, error^2 is 1 + s^2 / n.
  EXPECT_NEAR(halved.ratio(), std::sqrt(0.25 * 1.02 / (1 + 0.25 / 50)), 0.01);
  EXPECT_NEAR(doubled.ratio(), std::sqrt(4 * 1.02 / (1 + 4.0 / 50)), 0.02);
}

TEST(SpreadSkill, RefusesGroupsThatAreTooSmallAndKeepsTheRest) {
  SpreadSkill score;
  score.add(Values{1, 3}, Values{3, 5});
  EXPECT_THROW(score.add(Values{1}, Values{1}), std::logic_error);
  EXPECT_THROW(score.add(Values{1, 2}, Values{}), std::logic_error);
  EXPECT_DOUBLE_EQ(score.ratio(), std::sqrt(0.6));
}

}  // namespace
}  // namespace slift
