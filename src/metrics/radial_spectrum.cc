#include "metrics/radial_spectrum.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <stdexcept>

namespace slift {

namespace {

constexpr double kSpectralRounding = 1e-12;  // of the total energy

}  // namespace

RadialSpectrum::RadialSpectrum(std::int64_t height, std::int64_t width)
    : bins_(std::min(height, width) / 2 + 1), fft_(height, width) {
  if (height < 2 || width < 2) throw std::logic_error("RadialSpectrum: sides below 2");
  modes_.reserve(fft_.spectrum_size());
  for (std::int64_t row = 0; row < height; ++row) {
    const auto y = static_cast<double>(std::min(row, height - row));
    for (std::int64_t column = 0; column < fft_.columns(); ++column) {
      const std::int64_t rounded = std::llround(std::hypot(y, static_cast<double>(column)));
      // The first column holds its own mirror image, and so does the last if the width is even.
      const bool unmirrored = column > 0 && 2 * column < width;
      modes_.push_back(
          {static_cast<std::int32_t>(std::min(rounded, bins_ - 1)), unmirrored ? 2 : 1});
    }
  }
}

std::vector<double> RadialSpectrum::energy(std::span<const float> field) const {
  if (field.size() != fft_.field_size()) throw std::logic_error("RadialSpectrum: another shape");
  RealFft2d<double>::Spectrum spectrum(fft_.spectrum_size());
  fft_.forward({field.begin(), field.end()}, spectrum);
  std::vector<double> energy(static_cast<std::size_t>(bins_), 0);
  for (std::size_t i = 0; i < modes_.size(); ++i) {
    energy[static_cast<std::size_t>(modes_[i].bin)] += modes_[i].copies * std::norm(spectrum[i]);
  }
  const auto points = static_cast<double>(field.size());
  for (double& e : energy) e /= points * points;
  return energy;
}

double spectrum_distance(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::logic_error("spectrum_distance: lengths differ");
  const double rounding = kSpectralRounding * std::max(std::accumulate(a.begin(), a.end(), 0.0),
                                                       std::accumulate(b.begin(), b.end(), 0.0));
  double squares = 0, bins = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] <= rounding && b[k] <= rounding) continue;
    const double decades = std::log10(std::max(a[k], rounding) / std::max(b[k], rounding));
    squares += decades * decades;
    ++bins;
  }
  return bins > 0 ? std::sqrt(squares / bins) : 0;
}

}  // namespace slift
