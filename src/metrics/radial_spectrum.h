// Radially averaged energy spectrum of a field: how much of it varies on which scale.
//
//   E(k) = sum over k - 1/2 <= |q| < k + 1/2 of |fhat(q)|^2 / (H W)^2,   k = 0 .. min(H, W) / 2,
//
// fhat the discrete Fourier transform of the H x W field f, q = (q_y, q_x) its integer wave
// vectors, in cycles across the field in either direction: space is the unit square whatever H and
// W are. E has the unit of f^2.
//
// The last bin also holds all shorter waves, up to the corners of the wave plane. So Parseval's
// theorem holds as it stands, sum_k E(k) = mean of f^2, and what happens at the scale of the grid,
// such as a chequerboard, is not overlooked. A field that is not periodic has the jumps at its
// border in all bins, E ~ k^-2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/fft.h"

namespace slift {

// Plans for one shape; threads may use one object at once.
class RadialSpectrum {
 public:
  RadialSpectrum(std::int64_t height, std::int64_t width);  // both at least 2

  std::int64_t bins() const { return bins_; }

  // E(0) .. E(bins() - 1) of a field, row-major. In double precision: spectra of smooth fields fall
  // by more decades than a single-precision transform resolves.
  std::vector<double> energy(std::span<const float> field) const;

 private:
  struct Mode {
    std::int32_t bin;
    std::int32_t copies;  // 2 if the half spectrum lacks its mirror image
  };

  std::int64_t bins_;
  RealFft2d<double> fft_;
  std::vector<Mode> modes_;  // of the half spectrum
};

// Distance of two spectra, means over fields or single ones, of equal length and not negative: the
// root mean square over k of log10(a_k / b_k), so 1 is a factor of 10 in energy on every scale.
// Energy below 1e-12 of the larger total is rounding: it counts as that much, and bins where both
// have no more are left out. 0 if no bin is left.
double spectrum_distance(std::span<const double> a, std::span<const double> b);

}  // namespace slift
