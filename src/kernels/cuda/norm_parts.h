// What the two forms of norm_activation() share: norm_activation.cu, which passes over memory, and
// norm_cluster.cu and norm_cluster_backward.cu, which keep a group in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/border.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {

// As cpu/activation_math.h: z is twice half_z().
struct Gelu {
  static __device__ float half_z(float x) { return x * (0.79788456f + 0.0356774081f * (x * x)); }
  static __device__ float slope(float x) { return 1.59576912f + 0.214064449f * (x * x); }
};

struct Silu {
  static __device__ float half_z(float x) { return 0.5f * x; }
  static __device__ float slope(float) { return 1.0f; }
};

// tanh(z / 2), with which sigmoid(z) = (1 + tanh(z / 2)) / 2. For fields of fewer bits than float32
// the hardware's, which errs by 2^-11. The division errs by 2 ulp; exp = infinity gives -1.
template <typename T>
__device__ float tanh_of(float half_z) {
  if constexpr (std::is_same_v<T, float>) {
    return __fdividef(2.0f, 1.0f + expf(-2.0f * half_z)) - 1.0f;
  } else {
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(half_z));
    return result;
  }
}

template <typename T, typename F>
__device__ float activate(float x) {
  const float half = 0.5f * x;
  return half + half * tanh_of<T>(F::half_z(x));
}

template <typename T, typename F>
__device__ float activation_slope(float x) {
  const float t = tanh_of<T>(F::half_z(x));
  return 0.5f + 0.5f * t + 0.25f * x * (1.0f - t * t) * F::slope(x);
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
  return in.film == nullptr ? 1.0f : 1.0f + in.film_of(sample)[c];
}

// What the parameters make of a channel's n: the activation's argument is weight n + offset.
struct Affine {
  float weight, offset;
};

template <typename T>
__device__ Affine affine(const NormInputs<T>& in, std::int64_t sample, std::int64_t c) {
  const float gain = film_gain(in, sample, c);
  const float beta = in.film == nullptr ? 0.0f : in.film_of(sample)[in.shape.channels() + c];
  return {in.scale[c] * gain, in.shift[c] * gain + beta};
}

// affine() of N channels side by side.
template <typename T, int N>
__device__ void load_affine(const NormInputs<T>& in, std::int64_t sample, std::int64_t channel,
                            float (&weight)[N], float (&offset)[N]) {
  load(in.scale + channel, weight);
  load(in.shift + channel, offset);
  if (in.film == nullptr) return;
  const float* const film = in.film_of(sample) + channel;
  float alpha[N], beta[N];
  load(film, alpha);
  load(film + in.shape.channels(), beta);
  for (int i = 0; i < N; ++i) {
    weight[i] *= 1.0f + alpha[i];
    offset[i] = offset[i] * (1.0f + alpha[i]) + beta[i];
  }
}

// The sum over the lanes of a warp, for all of them.
inline __device__ double sum_over_lanes(double value) {
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, apart);
  }
  return value;
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

// The cells at the edge of the field: the first row, the last, the ends of those between.
inline __device__ unsigned edge_count(const Extent& extent) {
  const bool has_inside = extent.height > 2 && extent.width > 2;
  return extent.height * extent.width - (has_inside ? (extent.height - 2) * (extent.width - 2) : 0);
}

inline __device__ unsigned edge_cell(const Extent& extent, unsigned index) {
  if (index < extent.width) return index;
  index -= extent.width;
  if (index < extent.width) return (extent.height - 1) * extent.width + index;
  index -= extent.width;
  if (extent.width == 1) return 1 + index;
  return (1 + index / 2) * extent.width + index % 2 * (extent.width - 1);
}

// Calls body(cell) for the cells at the edge that fall to row `row` of `rows` of part `part` of
// `parts`.
template <typename Body>
__device__ void for_each_edge(const Extent& extent, unsigned part, unsigned parts, unsigned row,
                              unsigned rows, const Body& body) {
  const unsigned count = edge_count(extent), share = (count + parts - 1) / parts;
  const unsigned first = part * share, last = min(first + share, count);
#pragma unroll 1
  for (unsigned e = first + row; e < last; e += rows) body(edge_cell(extent, e));
}

// dloss/dout of a cell at the edge, the sum over its images: N channels of a gradient whose
// places have `channels` each.
template <int N, typename T>
__device__ void load_edge_gradient(const Extent& extent, const T* grad_y, std::int64_t channels,
                                   unsigned cell, float (&g)[N]) {
  for (int i = 0; i < N; ++i) g[i] = 0;
  for_each_image(extent.height, extent.width, cell, [&](unsigned place) {
    float one[N];
    load(grad_y + place * channels, one);
    for (int i = 0; i < N; ++i) g[i] += one[i];
  });
}

}  // namespace slift::kernels::cuda
