#include "core/fft.h"

#include <fftw3.h>

#include <mutex>
#include <stdexcept>

namespace slift {

namespace fftw {

// FFTW's C names, by precision.
template <typename Real>
struct Api;

template <>
struct Api<float> {
  using Complex = fftwf_complex;
  using Plan = fftwf_plan;
  static constexpr auto plan_forward = fftwf_plan_dft_r2c_2d;
  static constexpr auto plan_backward = fftwf_plan_dft_c2r_2d;
  static constexpr auto forward = fftwf_execute_dft_r2c;
  static constexpr auto backward = fftwf_execute_dft_c2r;
  static constexpr auto destroy = fftwf_destroy_plan;
};

template <>
struct Api<double> {
  using Complex = fftw_complex;
  using Plan = fftw_plan;
  static constexpr auto plan_forward = fftw_plan_dft_r2c_2d;
  static constexpr auto plan_backward = fftw_plan_dft_c2r_2d;
  static constexpr auto forward = fftw_execute_dft_r2c;
  static constexpr auto backward = fftw_execute_dft_c2r;
  static constexpr auto destroy = fftw_destroy_plan;
};

static std::mutex planner;  // FFTW plans and forgets plans in one thread at a time

template <typename Real>
class Plan {
 public:
  template <typename Planning>
  explicit Plan(const Planning& planning) {
    const std::lock_guard lock(planner);
    plan_ = planning();
    if (plan_ == nullptr) throw std::runtime_error("FFTW has no plan");
  }
  ~Plan() {
    const std::lock_guard lock(planner);
    Api<Real>::destroy(plan_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  typename Api<Real>::Plan get() const { return plan_; }

 private:
  typename Api<Real>::Plan plan_;
};

// std::complex<Real> and FFTW's Real[2] are laid out alike, by both their standards.
template <typename Real>
typename Api<Real>::Complex* raw(FftVector<std::complex<Real>>& values) {
  return reinterpret_cast<typename Api<Real>::Complex*>(values.data());
}

}  // namespace fftw

// Planning wants arrays of the right size and alignment; it leaves nothing in them.
template <typename Real>
struct RealFft2d<Real>::Plans {
  Plans(int height, int width, Field field, Spectrum spectrum)
      : forward([&] {
          return fftw::Api<Real>::plan_forward(height, width, field.data(), fftw::raw(spectrum),
                                               FFTW_ESTIMATE);
        }),
        backward([&] {
          return fftw::Api<Real>::plan_backward(height, width, fftw::raw(spectrum), field.data(),
                                                FFTW_ESTIMATE);
        }) {}

  fftw::Plan<Real> forward, backward;
};

template <typename Real>
RealFft2d<Real>::RealFft2d(std::int64_t height, std::int64_t width)
    : height_(height),
      width_(width),
      plans_(std::make_unique<Plans>(static_cast<int>(height), static_cast<int>(width),
                                     Field(field_size()), Spectrum(spectrum_size()))) {}

template <typename Real>
RealFft2d<Real>::~RealFft2d() = default;

template <typename Real>
void RealFft2d<Real>::forward(const Field& field, Spectrum& spectrum) const {
  // FFTW keeps the input of this direction, but its C signature cannot say so.
  fftw::Api<Real>::forward(plans_->forward.get(), const_cast<Real*>(field.data()),
                           fftw::raw(spectrum));
}

template <typename Real>
void RealFft2d<Real>::backward(Spectrum& spectrum, Field& field) const {
  fftw::Api<Real>::backward(plans_->backward.get(), fftw::raw(spectrum), field.data());
}

template class RealFft2d<float>;
template class RealFft2d<double>;

struct ComplexFft2d::Plan {
  Plan(int height, int width, Field field)
      : forward([&] {
          return fftw_plan_dft_2d(height, width, fftw::raw(field), fftw::raw(field), FFTW_FORWARD,
                                  FFTW_ESTIMATE);
        }) {}

  fftw::Plan<double> forward;
};

ComplexFft2d::ComplexFft2d(std::int64_t height, std::int64_t width)
    : height_(height),
      width_(width),
      plan_(std::make_unique<Plan>(static_cast<int>(height), static_cast<int>(width),
                                   Field(size()))) {}

ComplexFft2d::~ComplexFft2d() = default;

void ComplexFft2d::forward(Field& field) const {
  fftw_execute_dft(plan_->forward.get(), fftw::raw(field), fftw::raw(field));
}

}  // namespace slift
