// Fourier transforms of two-dimensional grids, by FFTW.
//
// A field has height x width values, row-major. Row r of its spectrum has the wave number r up to
// r = height / 2 and r - height above, columns alike. No direction is normalised:
// backward(forward(f)) = height * width * f.
//
// The plans are estimated, not measured, so that every run has the same bits. Objects may be made
// anywhere; one may be used by many threads at once.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace slift {

// Memory aligned as FFTW's vector instructions want it.
template <typename T>
struct FftAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  FftAllocator() = default;
  template <typename U>
  FftAllocator(const FftAllocator<U>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, kAlignment); }
  friend bool operator==(FftAllocator, FftAllocator) { return true; }
};

template <typename T>
using FftVector = std::vector<T, FftAllocator<T>>;

// Real fields, whose spectrum is the half height x (width / 2 + 1) that they need: column c has the
// wave number c. Real is float or double.
template <typename Real>
class RealFft2d {
 public:
  using Field = FftVector<Real>;
  using Spectrum = FftVector<std::complex<Real>>;

  RealFft2d(std::int64_t height, std::int64_t width);
  ~RealFft2d();

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::int64_t columns() const { return width_ / 2 + 1; }  // of the spectrum
  std::size_t field_size() const { return static_cast<std::size_t>(height_ * width_); }
  std::size_t spectrum_size() const { return static_cast<std::size_t>(height_ * columns()); }

  // The arguments have the sizes above.
  void forward(const Field& field, Spectrum& spectrum) const;
  void backward(Spectrum& spectrum, Field& field) const;  // overwrites the spectrum

 private:
  struct Plans;
  std::int64_t height_, width_;
  std::unique_ptr<Plans> plans_;
};

// Complex fields, in double precision.
class ComplexFft2d {
 public:
  using Field = FftVector<std::complex<double>>;

  ComplexFft2d(std::int64_t height, std::int64_t width);
  ~ComplexFft2d();

  std::size_t size() const { return static_cast<std::size_t>(height_ * width_); }

  // Replaces a field of that size by its spectrum.
  void forward(Field& field) const;

 private:
  struct Plan;
  std::int64_t height_, width_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace slift
