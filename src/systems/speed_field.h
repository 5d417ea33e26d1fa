// Random wave speeds on the periodic square [0, 2 pi)^2.
//
// Two independent white-noise fields are filtered in Fourier space by
//   g(k) = lognormal(k) / k,  lognormal(k) = exp(-(ln p + v - ln k)^2 / (2 v) - ln k),  g(0) = 0,
// with k the length of the wave vector, p the peak of the lognormal and v the variance of ln k. The
// pair is projected to be divergence-free; the speed is the sum of its components, shifted and
// scaled to span exactly [0, 1], so only the shape of g matters. Waves at the grid's Nyquist
// number, which have no derivative, are left out: on the paper's grid their g is below the rounding
// of a double.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fft.h"

namespace slift {

class SpeedField {
 public:
  // Requires grid >= 4, peak > 0 and variance > 0.
  SpeedField(std::int64_t grid, double peak, double variance);

  // A vector field, grid x grid; x runs along rows, y along columns.
  struct Pair {
    FftVector<double> x, y;
  };

  // Both are functions of (seed, index) alone; threads may call them at once.
  Pair divergence_free_pair(std::uint64_t seed, std::uint64_t index) const;
  std::vector<float> sample(std::uint64_t seed, std::uint64_t index) const;

 private:
  RealFft2d<double>::Spectrum filtered_noise(std::uint64_t seed, std::uint64_t index,
                                             std::uint32_t component) const;

  RealFft2d<double> fft_;
  std::vector<double> filter_;  // g over its largest value, as a half spectrum
};

}  // namespace slift
