#include "metrics/radial_spectrum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "metrics/testing.h"

namespace slift {
namespace {

struct Shape {
  std::int64_t height, width;

  std::size_t size() const { return static_cast<std::size_t>(height * width); }
};
constexpr Shape kShapes[] = {{2, 2}, {16, 16}, {15, 15}, {12, 20}, {21, 8}, {3, 64}};

double sum_of(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

// amplitude cos(2 pi (ky y / height + kx x / width) + 0.3)
Values plane_wave(Shape shape, double ky, double kx, double amplitude) {
  Values field;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    for (std::int64_t x = 0; x < shape.width; ++x) {
      const double turns = ky * static_cast<double>(y) / static_cast<double>(shape.height) +
                           kx * static_cast<double>(x) / static_cast<double>(shape.width);
      field.push_back(static_cast<float>(amplitude * std::cos(2 * std::numbers::pi * turns + 0.3)));
    }
  }
  return field;
}

TEST(RadialSpectrum, PlaneWaveHasOneBin) {
  struct Wave {
    Shape shape;
    double ky, kx;
    std::size_t bin;
  };
  const Wave waves[] = {
      {{16, 16}, 0, 3, 3},  {{16, 16}, 3, 0, 3},  {{16, 16}, 3, 4, 5},
      {{16, 16}, -3, 4, 5}, {{16, 16}, 1, 1, 1},  {{16, 16}, 2, 2, 3},  // 1.41 and 2.83
      {{12, 20}, 4, -3, 5}, {{12, 20}, 0, 6, 6},  {{12, 20}, 0, 9, 6},  // the last has the rest
      {{16, 16}, -6, 7, 8}, {{21, 8}, 3, 1, 3},   {{21, 8}, 9, 1, 4},
      {{15, 15}, 0, 7, 7},  {{15, 15}, 5, -4, 6},
  };
  for (const Wave& wave : waves) {
    const RadialSpectrum spectrum(wave.shape.height, wave.shape.width);
    const auto energy = spectrum.energy(plane_wave(wave.shape, wave.ky, wave.kx, 3));
    ASSERT_EQ(static_cast<std::int64_t>(energy.size()), spectrum.bins());
    for (std::size_t k = 0; k < energy.size(); ++k) {
      EXPECT_NEAR(energy[k], k == wave.bin ? 4.5 : 0, 1e-6)
          << wave.ky << " " << wave.kx << " " << k;
    }
  }
}

TEST(RadialSpectrum, ConstantsAndChequerboards) {
  for (const Shape shape : kShapes) {
    const RadialSpectrum spectrum(shape.height, shape.width);
    ASSERT_EQ(spectrum.bins(), std::min(shape.height, shape.width) / 2 + 1);
    const auto constant = spectrum.energy(Values(shape.size(), -1.5f));
    EXPECT_DOUBLE_EQ(constant[0], 2.25);
    EXPECT_NEAR(sum_of(constant), 2.25, 1e-14);
  }
  // The shortest wave of all, in the corner of the wave plane.
  Values board;
  for (int i = 0; i < 64; ++i) board.push_back((i / 8 + i) % 2 == 0 ? 2.0f : -2.0f);
  const auto energy = RadialSpectrum(8, 8).energy(board);
  EXPECT_NEAR(energy[4], 4, 1e-14);
  EXPECT_NEAR(sum_of(energy), 4, 1e-14);
}

TEST(RadialSpectrum, Parseval) {
  for (const Shape shape : kShapes) {
    const Values field = normals(shape.size(), shape.size(), 0.5f, 2);
    double squares = 0;
    for (const double v : field) squares += v * v;
    const auto energy = RadialSpectrum(shape.height, shape.width).energy(field);
    EXPECT_NEAR(sum_of(energy), squares / static_cast<double>(field.size()), 1e-13 * squares)
        << shape.height << " x " << shape.width;
  }
}

TEST(RadialSpectrum, WhiteNoiseHasTheSameEnergyInEveryMode) {
  // Variance 1 over H W modes. A bin has c modes: complex ones in equal pairs, whose squares have
  // the relative variance 1, and real ones, 2. Either way E is known to sqrt(2 / (c fields)).
  constexpr std::uint64_t fields = 500;
  for (const Shape shape : {Shape{16, 16}, {15, 15}, {12, 20}, {9, 6}}) {
    const RadialSpectrum spectrum(shape.height, shape.width);
    const auto bins = static_cast<std::size_t>(spectrum.bins());
    std::vector<double> modes(bins, 0), mean(bins, 0);
    for (std::int64_t y = 0; y < shape.height; ++y) {
      for (std::int64_t x = 0; x < shape.width; ++x) {
        const auto ky = static_cast<double>(2 * y > shape.height ? y - shape.height : y);
        const auto kx = static_cast<double>(2 * x > shape.width ? x - shape.width : x);
        std::size_t bin = 0;  // the last one that begins below |k|
        while (bin + 1 < bins && std::sqrt(ky * ky + kx * kx) >= static_cast<double>(bin) + 0.5) {
          ++bin;
        }
        ++modes[bin];
      }
    }
    for (std::uint64_t i = 0; i < fields; ++i) {
      const auto energy = spectrum.energy(normals(shape.size(), i));
      for (std::size_t k = 0; k < bins; ++k) mean[k] += energy[k] / fields;
    }
    for (std::size_t k = 0; k < bins; ++k) {
      const double expected = modes[k] / static_cast<double>(shape.size());
      EXPECT_NEAR(mean[k] / expected, 1, 4 * std::sqrt(2 / (modes[k] * fields))) << k;
    }
  }
}

TEST(RadialSpectrum, ThreadsShareAPlan) {
  const RadialSpectrum spectrum(24, 20);
  std::vector<double> expected[8], got[8];
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 8; ++i) expected[i] = spectrum.energy(normals(480, i));
  for (std::uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { got[i] = spectrum.energy(normals(480, i)); });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i], expected[i]);
}

TEST(RadialSpectrum, RefusesOtherShapes) {
  EXPECT_THROW(RadialSpectrum(1, 8), std::logic_error);
  EXPECT_THROW(RadialSpectrum(8, 1), std::logic_error);
  EXPECT_THROW(RadialSpectrum(4, 4).energy(Values(15)), std::logic_error);
}

TEST(SpectrumDistance, CountsDecades) {
  using Spectrum = std::vector<double>;
  EXPECT_EQ(spectrum_distance(Spectrum{1, 2, 3}, Spectrum{1, 2, 3}), 0);
  EXPECT_DOUBLE_EQ(spectrum_distance(Spectrum{1, 2, 3}, Spectrum{10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(spectrum_distance(Spectrum{1, 100}, Spectrum{1, 1}), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(spectrum_distance(Spectrum{1, 1}, Spectrum{1, 100}), std::sqrt(2.0));
  // Rounding is left out where both have no more, and stands for it where one has.
  EXPECT_DOUBLE_EQ(spectrum_distance(Spectrum{1, 1e-15, 0}, Spectrum{0.1, 1e-20, 1e-14}), 1);
  EXPECT_NEAR(spectrum_distance(Spectrum{1, 1e-3}, Spectrum{1, 0}), 9 / std::sqrt(2.0), 1e-3);
  EXPECT_NEAR(spectrum_distance(Spectrum{1, 0}, Spectrum{1, 1e-3}), 9 / std::sqrt(2.0), 1e-3);
  EXPECT_EQ(spectrum_distance(Spectrum{0, 0}, Spectrum{0, 0}), 0);
  EXPECT_THROW(spectrum_distance(Spectrum{1}, Spectrum{1, 2}), std::logic_error);
}

}  // namespace
}  // namespace slift
