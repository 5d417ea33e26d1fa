#include "systems/matern.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slift {
namespace {

// x K_1(x) from the integral K_1(x) = int_0^inf exp(-x cosh t) cosh t dt; the trapezoidal rule
// converges exponentially here.
double exact_correlation(double x) {
  if (x == 0) return 1;
  constexpr double step = 0.01;
  double integral = 0.5 * std::exp(-x);
  for (int i = 1; i < 1000; ++i) {
    const double c = std::cosh(i * step);
    integral += std::exp(-x * c) * c;
  }
  return x * step * integral;
}

struct Lag {
  std::int64_t x, y;
};

// The mean product of a(cell) and b(cell + lag) over one pair of fields.
double mean_product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t grid,
                    Lag lag) {
  double sum = 0;
  for (std::int64_t y = 0; y + lag.y < grid; ++y) {
    for (std::int64_t x = 0; x + lag.x < grid; ++x) {
      sum += a[static_cast<std::size_t>(y * grid + x)] *
             b[static_cast<std::size_t>((y + lag.y) * grid + x + lag.x)];
    }
  }
  return sum / static_cast<double>((grid - lag.x) * (grid - lag.y));
}

struct Estimate {
  double sum = 0, squares = 0, count = 0;
  void add(double x) { sum += x, squares += x * x, ++count; }
  double mean() const { return sum / count; }
  double error() const { return std::sqrt((squares / count - mean() * mean()) / (count - 1)); }
};

TEST(MaternField, CovarianceIsTheMaternOne) {
  constexpr std::int64_t grid = 30;
  const double sigma = 3, length = 10;
  const MaternField field(grid, sigma, length);
  const std::vector<Lag> lags = {{0, 0},  {5, 0},  {0, 5},  {10, 0},
                                 {0, 10}, {20, 0}, {0, 20}, {8, 6}};
  std::vector<Estimate> estimates(lags.size());
  Estimate mean, between;  // the field's own mean, and the product of the two fields
  std::vector<double> a(grid * grid), b(grid * grid);
  const std::vector<double> ones(grid * grid, 1.0);
  for (std::uint64_t i = 0; i < 600; ++i) {
    field.sample_pair({11, Purpose::kSystemNoise, i, 0}, a, b);
    for (std::size_t l = 0; l < lags.size(); ++l) {
      estimates[l].add(mean_product(a, a, grid, lags[l]));
      estimates[l].add(mean_product(b, b, grid, lags[l]));
    }
    mean.add(mean_product(a, ones, grid, {0, 0}));
    mean.add(mean_product(b, ones, grid, {0, 0}));
    between.add(mean_product(a, b, grid, {0, 0}));
  }
  for (std::size_t l = 0; l < lags.size(); ++l) {
    const double r = std::hypot(static_cast<double>(lags[l].x), static_cast<double>(lags[l].y));
    EXPECT_NEAR(estimates[l].mean(), 9 * exact_correlation(std::sqrt(2.0) * r / length),
                3 * estimates[l].error())
        << "lag " << lags[l].x << ", " << lags[l].y;
    EXPECT_LT(estimates[l].error(), 0.3);  // or the test above says little
  }
  EXPECT_NEAR(mean.mean(), 0, 3 * mean.error());
  EXPECT_NEAR(between.mean(), 0, 3 * between.error());
}

TEST(MaternField, EmbeddingIsExact) {
  for (const std::int64_t grid : {5, 16, 100}) {
    for (const double length : {1.0, 3.7, 10.0, 30.0}) {
      const MaternField field(grid, 3, length);
      EXPECT_LT(field.covariance_error(), 1e-12) << grid << ", " << length;
      EXPECT_GE(field.torus(), 2 * grid);
    }
  }
}

TEST(MaternField, IsAFunctionOfTheStream) {
  constexpr std::size_t cells = 12 * 12;
  std::vector<double> a(cells), b(cells), a2(cells), b2(cells);
  const MaternField field(12, 1, 4);
  field.sample_pair({1, Purpose::kSystemNoise, 5, 0}, a, b);
  MaternField(12, 1, 4).sample_pair({1, Purpose::kSystemNoise, 5, 0}, a2, b2);
  EXPECT_EQ(a, a2);
  EXPECT_EQ(b, b2);
  EXPECT_NE(a, b);
  field.sample_pair({1, Purpose::kSystemNoise, 6, 0}, a2, b2);
  EXPECT_NE(a, a2);
  // Sigma only scales.
  MaternField(12, 2.5, 4).sample_pair({1, Purpose::kSystemNoise, 5, 0}, a2, b2);
  for (std::size_t i = 0; i < cells; ++i) EXPECT_NEAR(a2[i], 2.5 * a[i], 1e-12);
}

}  // namespace
}  // namespace slift
