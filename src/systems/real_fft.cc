#include "systems/real_fft.h"

#include <fftw3.h>

#include <mutex>
#include <stdexcept>

namespace slift {

namespace {

std::mutex planner;  // FFTW plans and forgets plans in one thread at a time

// FFTW's C names, by precision.
template <typename Real>
struct Fftw;

template <>
struct Fftw<float> {
  using Complex = fftwf_complex;
  using Plan = fftwf_plan;
  static constexpr auto plan_forward = fftwf_plan_dft_r2c_2d;
  static constexpr auto plan_backward = fftwf_plan_dft_c2r_2d;
  static constexpr auto forward = fftwf_execute_dft_r2c;
  static constexpr auto backward = fftwf_execute_dft_c2r;
  static constexpr auto destroy = fftwf_destroy_plan;
};

template <>
struct Fftw<double> {
  using Complex = fftw_complex;
  using Plan = fftw_plan;
  static constexpr auto plan_forward = fftw_plan_dft_r2c_2d;
  static constexpr auto plan_backward = fftw_plan_dft_c2r_2d;
  static constexpr auto forward = fftw_execute_dft_r2c;
  static constexpr auto backward = fftw_execute_dft_c2r;
  static constexpr auto destroy = fftw_destroy_plan;
};

// std::complex<Real> and FFTW's Real[2] are laid out alike, by both their standards.
template <typename Real>
typename Fftw<Real>::Complex* raw(std::complex<Real>* spectrum) {
  return reinterpret_cast<typename Fftw<Real>::Complex*>(spectrum);
}

}  // namespace

template <typename Real>
struct RealFft2d<Real>::Plans {
  Plans(int n, Field field, Spectrum spectrum) {
    const std::lock_guard lock(planner);
    forward = Fftw<Real>::plan_forward(n, n, field.data(), raw(spectrum.data()), FFTW_ESTIMATE);
    backward = Fftw<Real>::plan_backward(n, n, raw(spectrum.data()), field.data(), FFTW_ESTIMATE);
    if (forward == nullptr || backward == nullptr) throw std::runtime_error("FFTW has no plan");
  }
  ~Plans() {
    const std::lock_guard lock(planner);
    Fftw<Real>::destroy(forward);
    Fftw<Real>::destroy(backward);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  typename Fftw<Real>::Plan forward = nullptr, backward = nullptr;
};

template <typename Real>
RealFft2d<Real>::RealFft2d(std::int64_t n) : n_(n) {
  // Planning wants arrays of the right alignment; it leaves nothing in them.
  plans_ =
      std::make_unique<Plans>(static_cast<int>(n), Field(field_size()), Spectrum(spectrum_size()));
}

template <typename Real>
RealFft2d<Real>::~RealFft2d() = default;

template <typename Real>
void RealFft2d<Real>::forward(const Field& field, Spectrum& spectrum) const {
  // FFTW keeps the input of this direction, but its C signature cannot say so.
  Fftw<Real>::forward(plans_->forward, const_cast<Real*>(field.data()), raw(spectrum.data()));
}

template <typename Real>
void RealFft2d<Real>::backward(Spectrum& spectrum, Field& field) const {
  Fftw<Real>::backward(plans_->backward, raw(spectrum.data()), field.data());
}

template class RealFft2d<float>;
template class RealFft2d<double>;

}  // namespace slift
