#include "systems/speed_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "systems/wave_step.h"

namespace slift {

namespace {

// Calls body(i, kx, ky) for each element i of the half spectrum of an n x n grid.
template <typename Body>
void for_each_wave(std::int64_t n, const Body& body) {
  const auto rows = static_cast<std::int32_t>(n);
  std::size_t i = 0;
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int32_t column = 0; column <= rows / 2; ++column) {
      body(i++, column, wave_number(row, rows));
    }
  }
}

}  // namespace

SpeedField::SpeedField(std::int64_t grid, double peak, double variance)
    : fft_(grid, grid), filter_(fft_.spectrum_size(), -std::numeric_limits<double>::infinity()) {
  // By logarithms, so that no choice of peak and variance underflows to an all-zero filter.
  for_each_wave(grid, [&](std::size_t i, std::int32_t kx, std::int32_t ky) {
    const bool nyquist = 2 * kx == grid || 2 * ky == grid;
    if ((kx == 0 && ky == 0) || nyquist) return;
    const double log_k = std::log(std::hypot(kx, ky)),
                 from_mean = std::log(peak) + variance - log_k;
    filter_[i] = -from_mean * from_mean / (2 * variance) - 2 * log_k;
  });
  const double largest = *std::max_element(filter_.begin(), filter_.end());
  for (double& g : filter_) g = std::exp(g - largest);
}

RealFft2d<double>::Spectrum SpeedField::filtered_noise(std::uint64_t seed, std::uint64_t index,
                                                       std::uint32_t component) const {
  std::vector<float> normals(fft_.field_size());
  fill_normal({seed, Purpose::kSystemNoise, index, component}, normals);
  RealFft2d<double>::Spectrum spectrum(fft_.spectrum_size());
  fft_.forward({normals.begin(), normals.end()}, spectrum);
  for (std::size_t i = 0; i < spectrum.size(); ++i) spectrum[i] *= filter_[i];
  return spectrum;
}

SpeedField::Pair SpeedField::divergence_free_pair(std::uint64_t seed, std::uint64_t index) const {
  RealFft2d<double>::Spectrum x = filtered_noise(seed, index, 0),
                              y = filtered_noise(seed, index, 1);
  for_each_wave(fft_.height(), [&](std::size_t i, std::int32_t kx, std::int32_t ky) {
    if (kx == 0 && ky == 0) return;
    const std::complex<double> along =
        (static_cast<double>(kx) * x[i] + static_cast<double>(ky) * y[i]) /
        static_cast<double>(kx * kx + ky * ky);
    x[i] -= static_cast<double>(kx) * along;
    y[i] -= static_cast<double>(ky) * along;
  });
  Pair pair = {FftVector<double>(fft_.field_size()), FftVector<double>(fft_.field_size())};
  fft_.backward(x, pair.x);
  fft_.backward(y, pair.y);
  return pair;
}

std::vector<float> SpeedField::sample(std::uint64_t seed, std::uint64_t index) const {
  const Pair pair = divergence_free_pair(seed, index);
  std::vector<double> sum(pair.x.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = pair.x[i] + pair.y[i];
  const auto [low, high] = std::minmax_element(sum.begin(), sum.end());
  const double shift = *low, range = *high - *low;
  std::vector<float> speed(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    speed[i] = static_cast<float>((sum[i] - shift) / range);
  }
  return speed;
}

}  // namespace slift
