#include "systems/real_fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace slift {
namespace {

template <typename Real>
class RealFft : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(RealFft, Precisions);

TYPED_TEST(RealFft, WaveGoesToItsRowAndColumn) {
  // cos(ky y + kx x + phase) has the one value (n^2 / 2) exp(i phase) in the half spectrum.
  using Real = TypeParam;
  constexpr std::int64_t n = 12, kx = 2, ky = -3;
  constexpr double phase = 0.7;
  const RealFft2d<Real> fft(n);
  typename RealFft2d<Real>::Field field(fft.field_size());
  for (std::int64_t i = 0; i < n * n; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(ky * (i / n) + kx * (i % n)) /
                         static_cast<double>(n);
    field[static_cast<std::size_t>(i)] = static_cast<Real>(std::cos(angle + phase));
  }
  const auto before = field;
  typename RealFft2d<Real>::Spectrum spectrum(fft.spectrum_size());
  fft.forward(field, spectrum);
  EXPECT_EQ(field, before);
  ASSERT_EQ(spectrum.size(), 12u * 7u);
  const double rounding = n * n * 4 * std::numeric_limits<Real>::epsilon();
  for (std::int64_t i = 0; i < n * fft.columns(); ++i) {
    const bool here = i / fft.columns() == n + ky && i % fft.columns() == kx;
    const std::complex<double> expected = here ? std::polar(n * n / 2.0, phase) : 0.0;
    EXPECT_LT(std::abs(std::complex<double>(spectrum[static_cast<std::size_t>(i)]) - expected),
              rounding)
        << i;
  }
}

TYPED_TEST(RealFft, BackwardUndoesForwardUpToTheSize) {
  using Real = TypeParam;
  for (const std::int64_t n : {4, 15, 64}) {
    const RealFft2d<Real> fft(n);
    typename RealFft2d<Real>::Field field(fft.field_size()), back(fft.field_size());
    for (std::size_t i = 0; i < field.size(); ++i) {
      field[i] = static_cast<Real>(std::sin(static_cast<double>(i * i)));
    }
    typename RealFft2d<Real>::Spectrum spectrum(fft.spectrum_size());
    fft.forward(field, spectrum);
    fft.backward(spectrum, back);
    const auto size = static_cast<Real>(n * n);
    for (std::size_t i = 0; i < field.size(); ++i) {
      ASSERT_NEAR(back[i] / size, field[i], 10 * std::numeric_limits<Real>::epsilon()) << n;
    }
  }
}

}  // namespace
}  // namespace slift
