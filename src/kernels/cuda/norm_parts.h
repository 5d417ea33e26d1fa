// What the two forms of norm_activation() share: norm_activation.cu, which passes over memory, and
// norm_cluster.cu and norm_cluster_backward.cu, which keep a group in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/border.h"
#include "kernels/cuda/instructions.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {

// f(x) = x sigmoid(z(x)) = s + s tanh(z / 2) of half the argument, s = x / 2: the factors 1/2 then
// cost nothing, as callers fold them into the coefficients that give s. An F has half_z(s) = z / 2
// and of that its steepness(s, z / 2) = s d(z / 2)/ds.
struct Gelu {
  static constexpr float kLinear = 1.59576912f, kCubic = 0.285419265f;
  static __device__ float half_z(float s) { return s * (kLinear + kCubic * (s * s)); }
  static __device__ float steepness(float s, float half_z) {
    return 3.0f * half_z - 2.0f * kLinear * s;
  }
};

struct Silu {
  static __device__ float half_z(float s) { return s; }
  static __device__ float steepness(float s, float) { return s; }
};

// For fields of fewer bits than float32 the hardware's. The division errs by 2 ulp; exp = infinity
// gives -1.
template <typename T>
__device__ float tanh_of(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return __fdividef(2.0f, 1.0f + expf(-2.0f * x)) - 1.0f;
  } else {
    return fast_tanh(x);
  }
}

// f(2 s).
template <typename T, typename F>
__device__ float activate_half(float s) {
  return s + s * tanh_of<T>(F::half_z(s));
}

// df(2 s)/ds.
template <typename T, typename F>
__device__ float half_slope(float s) {
  const float half_z = F::half_z(s), t = tanh_of<T>(half_z);
  return (1.0f + t) + (1.0f - t * t) * F::steepness(s, half_z);
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

// The parameters themselves, to be loaded early.
struct AffineParts {
  float scale, shift, alpha, beta;
  __device__ Affine closed() const {
    return {scale * (1.0f + alpha), shift * (1.0f + alpha) + beta};
  }
};

template <typename T>
__device__ AffineParts affine_parts(const NormInputs<T>& in, std::int64_t sample, std::int64_t c) {
  if (in.film == nullptr) return {in.scale[c], in.shift[c], 0, 0};
  const float* const film = in.film_of(sample) + c;
  return {in.scale[c], in.shift[c], film[0], film[in.shape.channels()]};
}

template <typename T>
__device__ Affine affine(const NormInputs<T>& in, std::int64_t sample, std::int64_t c) {
  return affine_parts(in, sample, c).closed();
}

// The sum over the lanes of a warp, for all of them.
template <typename Number>
__device__ Number sum_over_lanes(Number value) {
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
      : height(static_cast<unsigned>(shape.height)),
        width(static_cast<unsigned>(shape.width)),
        inverse_width(1.0f / static_cast<float>(width)) {}
  // cell / width. The product errs by less than a third of 1 / width, half of which it may.
  __device__ unsigned row_of(unsigned cell) const {
    constexpr unsigned kMostExact = 1u << 21;
    return cell < kMostExact
               ? static_cast<unsigned>((static_cast<float>(cell) + 0.5f) * inverse_width)
               : cell / width;
  }
  unsigned height, width;
  float inverse_width;
};

// Where the output shows a cell.
template <bool kBorder>
struct Spot {
  __device__ Spot(const Extent& extent, std::int64_t cell) : place(cell) {
    if constexpr (kBorder) {
      const auto index = static_cast<unsigned>(cell);
      const unsigned row = extent.row_of(index), column = index - row * extent.width;
      place = (row + 1) * (extent.width + 2) + column + 1;
      is_only = row > 0 && row + 1 < extent.height && column > 0 && column + 1 < extent.width;
    }
  }
  std::int64_t place;
  bool is_only = true;
};

// The cells at the edge of the field, in their order: the first row, the ends of those between, the
// last row. How many of them come before a cell:
inline __device__ unsigned edges_before(const Extent& extent, unsigned cell) {
  if (extent.height <= 2 || extent.width <= 2) return cell;
  const unsigned row = cell / extent.width, column = cell - row * extent.width;
  if (row == 0) return column;
  const unsigned above = extent.width + 2 * (row - 1);
  if (row < extent.height - 1) return above + min(column, 1u);
  return row < extent.height ? above + column : above - 2 + extent.width;
}

inline __device__ unsigned edge_cell(const Extent& extent, unsigned index) {
  if (extent.height <= 2 || extent.width <= 2 || index < extent.width) return index;
  index -= extent.width;
  const unsigned ends = 2 * (extent.height - 2);
  if (index >= ends) return (extent.height - 1) * extent.width + index - ends;
  return (1 + index / 2) * extent.width + index % 2 * (extent.width - 1);
}

// Calls body(cell) for the cells at the edge that fall to row `row` of `rows` of part `part` of
// `parts`.
template <typename Body>
__device__ void for_each_edge(const Extent& extent, unsigned part, unsigned parts, unsigned row,
                              unsigned rows, const Body& body) {
  const unsigned count = edges_before(extent, extent.height * extent.width);
  const unsigned share = (count + parts - 1) / parts;
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
