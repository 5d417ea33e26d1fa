// As much of CUDA's header of that name as the kernels use.
#pragma once

#include <cuda_runtime.h>

using __nv_fp8_storage_t = std::uint8_t;
using __nv_fp8x2_storage_t = std::uint16_t;
enum __nv_saturation_t { __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3 };

// 4 bits of exponent, 3 of mantissa; to the nearest, of two to the even one; at most 448.
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t,
                                                __nv_fp8_interpretation_t) {
  const unsigned sign = std::signbit(x) ? 128 : 0;
  const float size = std::min(std::abs(x), 448.0f);
  const int exponent = size > 0 ? std::max(std::ilogb(size), -6) : -6;
  // In units of the last digit, which may carry into the exponent.
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
  return static_cast<__nv_fp8_storage_t>(sign + static_cast<unsigned>((exponent + 6) * 8 + digits));
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s,
                                                     __nv_fp8_interpretation_t t) {
  return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(v.x, s, t) |
                                           __nv_cvt_float_to_fp8(v.y, s, t) << 8);
}
