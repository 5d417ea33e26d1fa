#include "systems/speed_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace slift {
namespace {

using Spectrum = RealFft2d<double>::Spectrum;

// Calls body(i, kx, ky) for each wave of the half spectrum but those whose conjugate is in it too.
template <typename Body>
void for_each_independent_wave(std::int64_t n, const Body& body) {
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int64_t ky = row <= n / 2 ? row : row - n;
    for (std::int64_t kx = 0; kx <= n / 2; ++kx) {
      if (kx == 0 && ky <= 0) continue;
      body(static_cast<std::size_t>(row * (n / 2 + 1) + kx), static_cast<double>(kx),
           static_cast<double>(ky));
    }
  }
}

TEST(SpeedField, SpansZeroToOneExactly) {
  for (const std::int64_t grid : {4, 27, 64, 256}) {
    const SpeedField field(grid, 1, 0.25);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const std::vector<float> speed = field.sample(3, i);
      ASSERT_EQ(speed.size(), static_cast<std::size_t>(grid * grid));
      const auto [low, high] = std::minmax_element(speed.begin(), speed.end());
      EXPECT_EQ(*low, 0.0f) << grid;
      EXPECT_EQ(*high, 1.0f) << grid;
    }
  }
}

TEST(SpeedField, IsTheScaledSumOfThePair) {
  const SpeedField field(32, 1, 0.25);
  const SpeedField::Pair pair = field.divergence_free_pair(3, 8);
  const std::vector<float> speed = field.sample(3, 8);
  const auto sum = [&](std::size_t i) { return pair.x[i] + pair.y[i]; };
  const auto low = static_cast<std::size_t>(
      std::distance(speed.begin(), std::min_element(speed.begin(), speed.end())));
  const auto high = static_cast<std::size_t>(
      std::distance(speed.begin(), std::max_element(speed.begin(), speed.end())));
  for (std::size_t i = 0; i < speed.size(); ++i) {
    EXPECT_NEAR(speed[i], (sum(i) - sum(low)) / (sum(high) - sum(low)), 1e-6);
  }
}

TEST(SpeedField, PairIsDivergenceFree) {
  for (const std::int64_t grid : {16, 27, 256}) {  // on the small ones the shortest waves count
    const RealFft2d<double> fft(grid, grid);
    const SpeedField::Pair pair = SpeedField(grid, 2, 0.5).divergence_free_pair(5, 1);
    Spectrum x(fft.spectrum_size()), y(fft.spectrum_size());
    fft.forward(pair.x, x);
    fft.forward(pair.y, y);
    double divergence = 0, gradient = 0;
    for_each_independent_wave(grid, [&](std::size_t i, double kx, double ky) {
      divergence += std::norm(kx * x[i] + ky * y[i]);
      gradient += (kx * kx + ky * ky) * (std::norm(x[i]) + std::norm(y[i]));
    });
    EXPECT_GT(gradient, 0);
    EXPECT_LT(std::sqrt(divergence / gradient), 1e-12) << grid;
  }
}

// Sums over waves and samples of (power of the pair) / g(k)^2, by any key of a wave. Of two white
// components the projection leaves one, so each term is the square of one complex normal times a
// constant, and a sum of n of them is known to 1/sqrt(n).
struct Spectra {
  double all = 0, waves = 0;
  double nyquist = 0;  // the power that should not be there
  std::map<int, double> sum, count;
  std::map<int, double> power;  // not divided by g^2

  void expect_flat() const {
    for (const auto& [key, value] : sum) {
      const double n = count.at(key);
      EXPECT_NEAR(value / n / (all / waves), 1, 5 / std::sqrt(n)) << key;
    }
  }
  double amplitude(int key) const { return std::sqrt(power.at(key) / count.at(key)); }
};

template <typename Key>
Spectra measure(double peak, double variance, const Key& key) {
  constexpr std::int64_t n = 32;
  constexpr std::uint64_t samples = 200;
  const SpeedField field(n, peak, variance);
  const RealFft2d<double> fft(n, n);
  Spectrum x(fft.spectrum_size()), y(fft.spectrum_size());
  Spectra result;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const SpeedField::Pair pair = field.divergence_free_pair(11, sample);
    fft.forward(pair.x, x);
    fft.forward(pair.y, y);
    for_each_independent_wave(n, [&](std::size_t i, double kx, double ky) {
      const double k = std::hypot(kx, ky), power = std::norm(x[i]) + std::norm(y[i]);
      if (kx == n / 2 || ky == n / 2) {
        result.nyquist += power;
        return;
      }
      const double from_mean = std::log(peak) + variance - std::log(k);
      const double lognormal = std::exp(-from_mean * from_mean / (2 * variance) - std::log(k));
      const double whitened = power / (lognormal / k * (lognormal / k));
      const int group = key(kx, ky);
      result.sum[group] += whitened, result.all += whitened;
      result.count[group] += 1, result.waves += 1;
      result.power[group] += power;
    });
  }
  return result;
}

int shell(double kx, double ky) { return static_cast<int>(std::lround(std::hypot(kx, ky))); }

TEST(SpeedField, SpectrumIsLognormalOverK) {
  const Spectra spectra = measure(1, 0.25, shell);
  spectra.expect_flat();
  // The lognormal peaks at k = 1, and g = lognormal / k all the more so.
  EXPECT_LT(spectra.nyquist, 1e-24 * spectra.power.at(1));
  for (int k = 2; k < 16; ++k) {
    EXPECT_LT(k * spectra.amplitude(k), 0.7 * spectra.amplitude(1)) << k;
  }
}

TEST(SpeedField, SpectrumPeaksWhereItIsToldTo) {
  // k g(k), the lognormal, has its maximum at the peak.
  const Spectra spectra = measure(5, 0.1, shell);
  spectra.expect_flat();
  for (const int k : {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    EXPECT_LT(k * spectra.amplitude(k), 5 * spectra.amplitude(5)) << k;
  }
}

TEST(SpeedField, SpectrumHasNoDirection) {
  // Dependent components would favour the waves along or across the diagonal.
  measure(1, 0.25, [](double kx, double ky) {
    return kx * ky > 0 ? 1 : kx * ky < 0 ? 2 : kx == 0 ? 3 : 4;
  }).expect_flat();
}

TEST(SpeedField, NarrowSpectraDoNotUnderflow) {
  const std::vector<float> speed = SpeedField(16, 1.3, 1e-6).sample(1, 1);
  EXPECT_EQ(*std::max_element(speed.begin(), speed.end()), 1.0f);
}

}  // namespace
}  // namespace slift
