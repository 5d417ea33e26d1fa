// What the two forms of norm_activation() share: norm_activation.cu, which passes over memory, and
// norm_cluster.cu, which keeps a group in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/border.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {

// As cpu/activation_math.h. The division errs by 2 ulp; exp(-z) = infinity gives 0.
inline __device__ float sigmoid(float z) { return __fdividef(1.0f, 1.0f + expf(-z)); }

struct Gelu {
  static __device__ float z(float x) { return 1.59576912f * (x + 0.044715f * x * x * x); }
  static __device__ float slope(float x) { return 1.59576912f * (1.0f + 0.134145f * x * x); }
};

struct Silu {
  static __device__ float z(float x) { return x; }
  static __device__ float slope(float) { return 1.0f; }
};

template <typename F>
__device__ float activate(float x) {
  return x * sigmoid(F::z(x));
}

template <typename F>
__device__ float activation_slope(float x) {
  const float s = sigmoid(F::z(x));
  return s + x * s * (1.0f - s) * F::slope(x);
}

// One channel of a sample as it lies in its source: the value of cell i is first[i * stride].
template <typename T>
struct Column {
  T* first;
  std::int64_t stride;
};

template <typename T>
__device__ Column<T> column(const NormShape& shape, T* a, T* b, std::int64_t sample,
                            std::int64_t channel) {
  if (channel < shape.channels_a) {
    return {a + sample * shape.cells() * shape.channels_a + channel, shape.channels_a};
  }
  return {b + sample * shape.cells() * shape.channels_b + channel - shape.channels_a,
          shape.channels_b};
}

template <typename T>
__device__ float bias_of(const NormInputs<T>& in, std::int64_t c) {
  return in.bias == nullptr ? 0.0f : in.bias[c];
}

template <typename T>
__device__ float film_gain(const NormInputs<T>& in, std::int64_t sample, std::int64_t c) {
  return in.film == nullptr ? 1.0f : 1.0f + in.film[2 * sample * in.shape.channels() + c];
}

// What the parameters make of a channel's n: the activation's argument is weight n + offset.
struct Affine {
  float weight, offset;
};

template <typename T>
__device__ Affine affine(const NormInputs<T>& in, std::int64_t sample, std::int64_t c) {
  const float gain = film_gain(in, sample, c);
  const float beta =
      in.film == nullptr ? 0.0f : in.film[(2 * sample + 1) * in.shape.channels() + c];
  return {in.scale[c] * gain, in.shift[c] * gain + beta};
}

// What `out` holds of an output.
template <typename Out>
__device__ float held(const NormOutputs<Out>& out, float value) {
  return std::is_same_v<Out, Fp8> ? out.gain * value : value;
}

// The field of a sample, whose cells a 32-bit number counts: divisions of 64 bits are slow.
struct Extent {
  __device__ explicit Extent(const NormShape& shape)
      : height(static_cast<unsigned>(shape.height)), width(static_cast<unsigned>(shape.width)) {}
  unsigned height, width;
};

// Where the output shows a cell.
template <bool kBorder>
struct Spot {
  __device__ Spot(const Extent& extent, std::int64_t cell) : place(cell) {
    if constexpr (kBorder) {
      const auto index = static_cast<unsigned>(cell);
      const unsigned row = index / extent.width, column = index - row * extent.width;
      place = (row + 1) * (extent.width + 2) + column + 1;
      is_only = row > 0 && row + 1 < extent.height && column > 0 && column + 1 < extent.width;
    }
  }
  std::int64_t place;
  bool is_only = true;
};

}  // namespace slift::kernels::cuda
