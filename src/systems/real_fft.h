// Fourier transforms of real square grids, by FFTW.
//
// A field is n x n, row-major; its spectrum is the half n x (n/2 + 1) that a real field needs: row
// r has wave number wave_number(r, n) of wave_step.h, column c has c. No direction is normalised:
// backward(forward(f)) = n^2 f.
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

// Real is float or double. The plans are estimated, not measured, so that every run has the same
// bits. Objects may be made anywhere; one may be used by many threads at once.
template <typename Real>
class RealFft2d {
 public:
  using Field = FftVector<Real>;
  using Spectrum = FftVector<std::complex<Real>>;

  explicit RealFft2d(std::int64_t n);
  ~RealFft2d();

  std::int64_t n() const { return n_; }
  std::int64_t columns() const { return n_ / 2 + 1; }  // of the spectrum
  std::size_t field_size() const { return static_cast<std::size_t>(n_ * n_); }
  std::size_t spectrum_size() const { return static_cast<std::size_t>(n_ * columns()); }

  // The arguments have the sizes above.
  void forward(const Field& field, Spectrum& spectrum) const;
  void backward(Spectrum& spectrum, Field& field) const;  // overwrites the spectrum

 private:
  struct Plans;
  std::int64_t n_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace slift
