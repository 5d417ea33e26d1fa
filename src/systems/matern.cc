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
      torus_(fft_size(std::max(2 * grid, static_cast<std::int64_t>(std::ceil(20 * length))))) {
  const auto modes = static_cast<std::size_t>(torus_ * torus_);
  const Buffer buffer = make_buffer();
  // FFTW_ESTIMATE: the same algorithm, hence the same bits, in every run.
  plan_.reset(fftw_plan_dft_2d(static_cast<int>(torus_), static_cast<int>(torus_), buffer.get(),
                               buffer.get(), FFTW_FORWARD, FFTW_ESTIMATE));
  const double kappa = std::sqrt(2.0) / length;
  const auto at = [&](std::int64_t y, std::int64_t x) -> fftw_complex& {
    return buffer[static_cast<std::size_t>(y * torus_ + x)];
  };
  const auto mirrored = [&](std::int64_t lag) { return lag == 0 ? 0 : torus_ - lag; };
  for (std::int64_t y = 0; y <= torus_ / 2; ++y) {
    for (std::int64_t x = 0; x <= y; ++x) {
      const double r = std::hypot(static_cast<double>(x), static_cast<double>(y));
      const double c = covariance(sigma, kappa, r);
      for (const std::int64_t a : {y, mirrored(y)}) {
        for (const std::int64_t b : {x, mirrored(x)}) {
          at(a, b)[0] = at(b, a)[0] = c;
          at(a, b)[1] = at(b, a)[1] = 0;
        }
      }
    }
  }
  fftw_execute(plan_.get());
  amplitude_.resize(modes);
  for (std::size_t k = 0; k < modes; ++k) {
    const double variance = buffer[k][0] / static_cast<double>(modes);
    amplitude_[k] = std::sqrt(std::max(variance, 0.0));
    covariance_error_ += std::max(-variance, 0.0);
  }
}

MaternField::Buffer MaternField::make_buffer() const {
  return Buffer(fftw_alloc_complex(static_cast<std::size_t>(torus_ * torus_)));
}

void MaternField::sample_pair(const Stream& stream, std::span<double> first,
                              std::span<double> second) const {
  std::vector<float> normals(2 * amplitude_.size());
  fill_normal(stream, normals);
  const Buffer modes = make_buffer();
  for (std::size_t k = 0; k < amplitude_.size(); ++k) {
    modes[k][0] = amplitude_[k] * static_cast<double>(normals[2 * k]);
    modes[k][1] = amplitude_[k] * static_cast<double>(normals[2 * k + 1]);
  }
  fftw_execute_dft(plan_.get(), modes.get(), modes.get());
  const auto n = static_cast<std::size_t>(grid_), width = static_cast<std::size_t>(torus_);
  for (std::size_t y = 0; y < n; ++y) {
    for (std::size_t x = 0; x < n; ++x) {
      first[y * n + x] = modes[y * width + x][0];
      second[y * n + x] = modes[y * width + x][1];
    }
  }
}

}  // namespace slift
