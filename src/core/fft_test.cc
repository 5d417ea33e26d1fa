#include "core/fft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <thread>
#include <utility>

namespace slift {
namespace {

constexpr std::int64_t kHeight = 12, kWidth = 10, kRows = -3, kColumns = 2;  // sizes, wave numbers
constexpr double kPhase = 0.7;

// cos(2 pi (kRows y / kHeight + kColumns x / kWidth) + kPhase) at point i.
double wave_at(std::int64_t i) {
  const auto y = static_cast<double>(i / kWidth), x = static_cast<double>(i % kWidth);
  return std::cos(2 * std::numbers::pi * (kRows * y / kHeight + kColumns * x / kWidth) + kPhase);
}

template <typename Real>
class RealFft : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(RealFft, Precisions);

TYPED_TEST(RealFft, WaveGoesToItsRowAndColumn) {
  // The one value (height width / 2) exp(i phase) in the half spectrum.
  using Real = TypeParam;
  const RealFft2d<Real> fft(kHeight, kWidth);
  typename RealFft2d<Real>::Field field(fft.field_size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    field[i] = static_cast<Real>(wave_at(static_cast<std::int64_t>(i)));
  }
  const auto before = field;
  typename RealFft2d<Real>::Spectrum spectrum(fft.spectrum_size());
  fft.forward(field, spectrum);
  EXPECT_EQ(field, before);
  ASSERT_EQ(spectrum.size(), 12u * 6u);
  const double rounding = 120 * 4 * std::numeric_limits<Real>::epsilon();
  for (std::int64_t i = 0; i < kHeight * fft.columns(); ++i) {
    const bool here = i / fft.columns() == kHeight + kRows && i % fft.columns() == kColumns;
    const std::complex<double> expected = here ? std::polar(60.0, kPhase) : 0.0;
    EXPECT_LT(std::abs(std::complex<double>(spectrum[static_cast<std::size_t>(i)]) - expected),
              rounding)
        << i;
  }
}

TYPED_TEST(RealFft, BackwardUndoesForwardUpToTheSize) {
  using Real = TypeParam;
  for (const auto& [height, width] : {std::pair{4, 4}, {15, 15}, {64, 64}, {2, 7}, {9, 20}}) {
    const RealFft2d<Real> fft(height, width);
    typename RealFft2d<Real>::Field field(fft.field_size()), back(fft.field_size());
    for (std::size_t i = 0; i < field.size(); ++i) {
      field[i] = static_cast<Real>(std::sin(static_cast<double>(i * i)));
    }
    typename RealFft2d<Real>::Spectrum spectrum(fft.spectrum_size());
    fft.forward(field, spectrum);
    fft.backward(spectrum, back);
    const auto size = static_cast<Real>(height * width);
    for (std::size_t i = 0; i < field.size(); ++i) {
      ASSERT_NEAR(back[i] / size, field[i], 10 * std::numeric_limits<Real>::epsilon())
          << height << " x " << width;
    }
  }
}

TEST(ComplexFft, WavesGoToTheirRowsAndColumns) {
  // The real part to its wave number and the opposite one; i times the mean to 0.
  const ComplexFft2d fft(kHeight, kWidth);
  ComplexFft2d::Field field(fft.size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    field[i] = {wave_at(static_cast<std::int64_t>(i)), 0.25};
  }
  fft.forward(field);
  for (std::int64_t i = 0; i < kHeight * kWidth; ++i) {
    const auto at = std::pair(i / kWidth, i % kWidth);
    std::complex<double> expected = 0;
    if (at == std::pair<std::int64_t, std::int64_t>(0, 0)) expected = {0, 30};
    if (at == std::pair(kHeight + kRows, kColumns)) expected = std::polar(60.0, kPhase);
    if (at == std::pair(-kRows, kWidth - kColumns)) expected = std::polar(60.0, -kPhase);
    EXPECT_LT(std::abs(field[static_cast<std::size_t>(i)] - expected), 1e-12) << i;
  }
}

TEST(Fft, ManyThreadsMayPlan) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int side = 2; side < 40; ++side) {
        const RealFft2d<double> real(side, 10 + t);
        const ComplexFft2d complex(10 + t, side);
        ComplexFft2d::Field field(complex.size(), 1);
        complex.forward(field);
        right += std::abs(field[0] - static_cast<double>(field.size())) < 1e-9 ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * 38);
}

}  // namespace
}  // namespace slift
