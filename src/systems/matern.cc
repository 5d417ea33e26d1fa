#include "systems/matern.h"

#include <algorithm>
#include <cmath>

namespace slift {

namespace {

double covariance(double sigma, double kappa, double r) {
  const double x = kappa * r;
  return sigma * sigma * (x > 0 ? x * std::cyl_bessel_k(1.0, x) : 1.0);
}

// The least even size from `least` on that FFTs handle quickly: 2^a 3^b 5^c.
std::int64_t fft_size(std::int64_t least) {
  for (std::int64_t size = least + least % 2;; size += 2) {
    std::int64_t rest = size;
    for (const std::int64_t factor : {2, 3, 5}) {
      while (rest % factor == 0) rest /= factor;
    }
    if (rest == 1) return size;
  }
}

}  // namespace

MaternField::MaternField(std::int64_t grid, double sigma, double length)
    : grid_(grid),
      torus_(fft_size(std::max(2 * grid, static_cast<std::int64_t>(std::ceil(20 * length))))),
      fft_(torus_, torus_) {
  ComplexFft2d::Field buffer(fft_.size());  // the covariance, then its spectrum
  const double kappa = std::sqrt(2.0) / length;
  const auto at = [&](std::int64_t y, std::int64_t x) -> std::complex<double>& {
    return buffer[static_cast<std::size_t>(y * torus_ + x)];
  };
  const auto mirrored = [&](std::int64_t lag) { return lag == 0 ? 0 : torus_ - lag; };
  for (std::int64_t y = 0; y <= torus_ / 2; ++y) {
    for (std::int64_t x = 0; x <= y; ++x) {
      const double r = std::hypot(static_cast<double>(x), static_cast<double>(y));
      const double c = covariance(sigma, kappa, r);
      for (const std::int64_t a : {y, mirrored(y)}) {
        for (const std::int64_t b : {x, mirrored(x)}) {
          at(a, b) = at(b, a) = c;
        }
      }
    }
  }
  fft_.forward(buffer);
  amplitude_.resize(buffer.size());
  for (std::size_t k = 0; k < buffer.size(); ++k) {
    const double variance = buffer[k].real() / static_cast<double>(buffer.size());
    amplitude_[k] = std::sqrt(std::max(variance, 0.0));
    covariance_error_ += std::max(-variance, 0.0);
  }
}

void MaternField::sample_pair(const Stream& stream, std::span<double> first,
                              std::span<double> second) const {
  std::vector<float> normals(2 * amplitude_.size());
  fill_normal(stream, normals);
  ComplexFft2d::Field modes(fft_.size());
  for (std::size_t k = 0; k < amplitude_.size(); ++k) {
    modes[k] = {amplitude_[k] * static_cast<double>(normals[2 * k]),
                amplitude_[k] * static_cast<double>(normals[2 * k + 1])};
  }
  fft_.forward(modes);
  const auto n = static_cast<std::size_t>(grid_), width = static_cast<std::size_t>(torus_);
  for (std::size_t y = 0; y < n; ++y) {
    for (std::size_t x = 0; x < n; ++x) {
      first[y * n + x] = modes[y * width + x].real();
      second[y * n + x] = modes[y * width + x].imag();
    }
  }
}

}  // namespace slift
