// Channels-last fields, float or bfloat16, read and written 16 bytes at a time; shared by the CUDA
// kernels on them. Arithmetic is in float32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/kernels.h"

namespace slift::kernels::cuda {

// N elements side by side: those of 16 bytes, or one where channels do not divide so. As many of a
// smaller type are fewer bytes.
template <typename T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T values[N];
};

template <typename T>
inline constexpr int kPackSize = 16 / sizeof(T);

inline bool is_aligned(const void* rows) {
  return reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
}

// Whether rows of `channels` elements can be taken in packs of 16 bytes, at each of the pointers.
template <typename... T>
bool fits_packs(std::int64_t channels, const T*... rows) {
  return ((channels % kPackSize<T> == 0 && is_aligned(rows)) && ...);
}

inline __device__ float to_float(float x) { return x; }
inline __device__ float to_float(BFloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
inline __device__ void from_float(float x, float& to) { to = x; }
inline __device__ void from_float(float x, BFloat16& to) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
inline __device__ void from_float(float x, Fp8& to) {
  to.bits = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

template <int N, typename T>
__device__ void unpack(const Pack<T, N>& pack, float (&to)[N]) {
  if constexpr (std::is_same_v<T, BFloat16> && N % 2 == 0) {
    const auto* const pairs = reinterpret_cast<const unsigned*>(&pack);  // two at a time
    for (int i = 0; i < N / 2; ++i) {
      to[2 * i] = __uint_as_float(pairs[i] << 16);
      to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
  } else {
    for (int i = 0; i < N; ++i) to[i] = to_float(pack.values[i]);
  }
}

// N elements, 16 bytes of them or a multiple, or one. Loads go through the cache of data that no
// one writes meanwhile, so that they need not wait for stores. Zeros, and nothing is read, if not
// `wanted`.
template <int N, typename T>
__device__ void load(const T* from, float (&to)[N], bool wanted = true) {
  if constexpr (N == 1) {
    to[0] = wanted ? to_float(*from) : 0.0f;
  } else {
    Pack<T, N> pack = {};
    for (int i = 0; i < static_cast<int>(sizeof(pack) / 16); ++i) {
      if (wanted) {
        reinterpret_cast<uint4*>(&pack)[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
      }
    }
    unpack(pack, to);
  }
}

// Two at a time, which the hardware rounds in one instruction.
inline __device__ void from_floats(float x, float y, float* to) {
  to[0] = x;
  to[1] = y;
}
inline __device__ void from_floats(float x, float y, BFloat16* to) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
}
inline __device__ void from_floats(float x, float y, Fp8* to) {
  *reinterpret_cast<__nv_fp8x2_storage_t*>(to) =
      __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E4M3);
}

template <int N, typename T>
__device__ Pack<T, N> packed(const float (&from)[N]) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    from_float(from[0], pack.values[0]);
  } else {
    for (int i = 0; i < N; i += 2) from_floats(from[i], from[i + 1], pack.values + i);
  }
  return pack;
}

template <int N, typename T>
__device__ void store(const float (&from)[N], T* to) {
  *reinterpret_cast<Pack<T, N>*>(to) = packed<N, T>(from);
}

}  // namespace slift::kernels::cuda
