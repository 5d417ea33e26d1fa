#include "metrics/wasserstein.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "metrics/testing.h"

namespace slift {
namespace {

TEST(Wasserstein, ShiftAndScale) {
  // Halves and quarters are exact in float32, so the distances are too.
  Values a(501), shifted, scaled;
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = 0.25f * static_cast<float>(i) - 20;
    shifted.push_back(a[i] - 3.5f);
    scaled.push_back(3 * a[i]);
    squares += static_cast<double>(a[i]) * a[i] / static_cast<double>(a.size());
  }
  EXPECT_EQ(w2_squared_sorted(a, a), 0.0);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(a, shifted), 3.5 * 3.5);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(shifted, a), 3.5 * 3.5);
  EXPECT_NEAR(w2_squared_sorted(a, scaled), 4 * squares, 1e-12 * squares);
}

TEST(Wasserstein, UnequalCountsByHand) {
  // {0, 1} against {0, 0, 1}: the quantile functions differ by 1 on [1/2, 2/3).
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{0}, Values{0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{0, 1}, Values{0}), 0.5);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{0, 1}, Values{0, 0, 1}), 1.0 / 6);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{0, 0, 1}, Values{0, 1}), 1.0 / 6);
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{2}, Values{-1, 2, 4}), (9.0 + 0 + 4) / 3);
  // {0, 6} against {0, 3, 6}: 3 apart on [1/3, 2/3).
  EXPECT_DOUBLE_EQ(w2_squared_sorted(Values{0, 6}, Values{0, 3, 6}), 3.0);
  EXPECT_THROW(w2_squared_sorted(Values{}, Values{1}), std::logic_error);
  EXPECT_THROW(w2_squared_sorted(Values{1}, Values{}), std::logic_error);
}

TEST(Wasserstein, RepeatedSamplesAreTheSameDistribution) {
  const Values a = sorted(normals(97, 0)), b = sorted(normals(64, 1, 0.3f, 2));
  const double expected = w2_squared_sorted(a, b);
  for (const std::size_t k : {2u, 3u, 7u}) {
    const Values copies = repeated(a, k);
    EXPECT_EQ(w2_squared_sorted(a, copies), 0.0);
    EXPECT_NEAR(w2_squared_sorted(copies, b), expected, 1e-12);
  }
}

TEST(Wasserstein, Gaussians) {
  // N(0, 1) and N(1/2, 4): squared W2 = (1/2)^2 + (2 - 1)^2. Its first variation is -x - x^2 under
  // the first, variance 3, and 2z + 2z^2 (y = 1/2 + 2z) under the second, variance 12: the standard
  // error is sqrt(3/n + 12/m).
  constexpr std::size_t n = 40000;
  for (const std::size_t m : {n, n - 9999}) {
    const double got = w2_squared_sorted(sorted(normals(n, 0)), sorted(normals(m, 1, 0.5f, 2)));
    const double error = std::sqrt(3 / static_cast<double>(n) + 12 / static_cast<double>(m));
    EXPECT_NEAR(got, 1.25, 4 * error);
  }
  // Two samples of one distribution: of the order 1/n, far below the error above.
  const double floor = w2_squared_sorted(sorted(normals(n, 0)), sorted(normals(n, 2)));
  EXPECT_GT(floor, 0);
  EXPECT_LT(floor, 20.0 / n);
}

TEST(Directions, HaveUnitLength) {
  EXPECT_EQ(slicing_directions(1, 128), Values{1.0f});
  for (const std::size_t dim : {2u, 3u, 7u}) {
    const Values d = slicing_directions(static_cast<std::int64_t>(dim), 128);
    ASSERT_EQ(d.size(), dim * 128);
    for (std::size_t k = 0; k < 128; ++k) {
      double squares = 0;
      for (std::size_t c = 0; c < dim; ++c) squares += std::pow(d[k * dim + c], 2);
      EXPECT_NEAR(squares, 1, 1e-6);
    }
    EXPECT_EQ(d, slicing_directions(static_cast<std::int64_t>(dim), 128));
  }
}

TEST(Directions, SpreadOverTheSphere) {
  // Mean of u u^T is I/dim: diagonal entries have variance 2(dim-1)/(dim^2 (dim+2)) a draw, the
  // others 1/(dim (dim+2)).
  constexpr std::size_t count = 4096;
  for (const std::size_t dim : {2u, 3u, 7u}) {
    const Values d = slicing_directions(static_cast<std::int64_t>(dim), count);
    const auto n = static_cast<double>(dim);
    for (std::size_t i = 0; i < dim; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double mean = 0;
        for (std::size_t k = 0; k < count; ++k) {
          mean += static_cast<double>(d[k * dim + i]) * d[k * dim + j] / count;
        }
        const double variance = i == j ? 2 * (n - 1) / (n * n * (n + 2)) : 1 / (n * (n + 2));
        EXPECT_NEAR(mean, i == j ? 1 / n : 0, 4 * std::sqrt(variance / count)) << dim;
      }
    }
  }
}

TEST(Projection, IsTheInnerProduct) {
  const Values points = normals(2 * 50, 0), direction = {0.6f, -0.8f};
  const Values got = project(points, 2, direction);
  ASSERT_EQ(got.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_FLOAT_EQ(got[i], 0.6f * points[2 * i] - 0.8f * points[2 * i + 1]);
  }
}

TEST(AscendingOrder, SortsAndKeepsEqualOnesInPlace) {
  EXPECT_EQ(ascending_order(Values{3, -1, 2, -1, 0.5f}),
            (std::vector<std::int32_t>{1, 3, 4, 2, 0}));
  EXPECT_EQ(ascending_order(Values{0.0f, -0.0f}), (std::vector<std::int32_t>{0, 1}));
  const Values x = normals(1000, 0);
  const auto order = ascending_order(x);
  for (std::size_t i = 1; i < x.size(); ++i) {
    EXPECT_LE(x[static_cast<std::size_t>(order[i - 1])], x[static_cast<std::size_t>(order[i])]);
  }
}

TEST(SlicedW2, ShiftInThePlane) {
  // A shift by v moves the projection on u by u.v, and the mean of cos^2 over evenly spaced angles
  // is 1/2 whatever their number above 1: |v| / sqrt 2.
  const Values a = normals(2 * 300, 0);
  Values b = a;
  for (std::size_t i = 0; i < b.size(); i += 2) b[i] += 3, b[i + 1] -= 4;
  for (const std::int64_t count : {2, 3, 8, 128}) {
    EXPECT_NEAR(sliced_w2(a, b, 2, slicing_directions(2, count)), 5 / std::sqrt(2.0), 1e-5);
  }
  // In one dimension there is nothing to slice.
  EXPECT_DOUBLE_EQ(sliced_w2(Values{2, 0}, Values{1, 3}, 1, slicing_directions(1, 128)), 1.0);
}

TEST(SlicedW2, UnequalCounts) {
  // The origin against (1, 0) and (-1, 0): the projections are +- cos, W2^2 = cos^2.
  const Values origin = {0, 0}, pair = {1, 0, -1, 0};
  EXPECT_NEAR(sliced_w2(origin, pair, 2, slicing_directions(2, 16)), std::sqrt(0.5), 1e-6);
}

TEST(ExactW2, IsTheSortedFormulaInOneDimension) {
  const Values a = normals(300, 0), b = normals(300, 1, 0.3f, 2);
  EXPECT_NEAR(exact_w2(a, b, 1), std::sqrt(w2_squared_sorted(sorted(a), sorted(b))), 1e-6);
}

TEST(ExactW2, ShiftAndOrder) {
  const Values a = normals(3 * 150, 0);
  Values b = a;
  for (std::size_t i = 0; i < b.size(); i += 3) b[i] += 1, b[i + 1] -= 2, b[i + 2] += 2;
  EXPECT_NEAR(exact_w2(a, b, 3), 3, 1e-5);
  Values turned;  // the same points, last first
  for (std::size_t i = a.size(); i > 0; i -= 3) {
    turned.insert(turned.end(), a.begin() + static_cast<std::ptrdiff_t>(i - 3),
                  a.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_EQ(exact_w2(a, turned, 3), 0.0);
  EXPECT_THROW(exact_w2(a, Values(a.begin() + 3, a.end()), 3), std::logic_error);
  EXPECT_THROW(exact_w2(Values{}, Values{}, 3), std::logic_error);
}

TEST(ExactW2, IsNeverBelowTheSliced) {
  // A coupling of the points couples every projection of them at no greater cost.
  for (const std::int64_t dim : {2, 3, 5}) {
    const auto directions = slicing_directions(dim, 64);
    for (std::uint64_t trial = 0; trial < 10; ++trial) {
      const auto size = static_cast<std::size_t>(60 * dim);
      const Values a = normals(size, 2 * trial), b = normals(size, 2 * trial + 1, 0.2f, 1.5f);
      EXPECT_GE(exact_w2(a, b, dim), sliced_w2(a, b, dim, directions));
    }
  }
}

TEST(ExactW2, HoldsInEveryUnit) {
  const Values a = normals(40, 1), b = normals(40, 2);
  const double w2 = exact_w2(a, b, 2);
  for (const float unit : {1e-30f, 1e25f}) {
    Values large_a = a, large_b = b;
    for (float& x : large_a) x *= unit;
    for (float& x : large_b) x *= unit;
    EXPECT_NEAR(exact_w2(large_a, large_b, 2) / unit, w2, 1e-5 * w2);
  }
  EXPECT_EQ(exact_w2(a, a, 2), 0);
  Values diverged = a;
  diverged[3] = 3e38f;
  EXPECT_NEAR(exact_w2(diverged, b, 2), 3e38 / std::sqrt(20.0), 1e34);
}

}  // namespace
}  // namespace slift
