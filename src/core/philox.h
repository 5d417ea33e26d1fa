// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011) and the uniform and normal draws built on it.
//
// Everything here is a pure function of (key, counter), compiles for the CPU and for CUDA, and
// gives the same bits on both: only IEEE additions, multiplications, divisions and square roots
// are used, each rounded on its own. Host code must be built with -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define SLIFT_HD __host__ __device__ __forceinline__
#else
#define SLIFT_HD inline
#endif

namespace slift {

struct PhiloxKey {
  std::uint32_t k0, k1;
};

struct PhiloxBlock {
  std::uint32_t x0, x1, x2, x3;
};

SLIFT_HD PhiloxBlock philox4x32_10(PhiloxBlock c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53u) * c.x0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57u) * c.x2;
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c.x1 ^ key.k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c.x3 ^ key.k1, static_cast<std::uint32_t>(p0)};
    key.k0 += 0x9E3779B9u;
    key.k1 += 0xBB67AE85u;
  }
  return c;
}

namespace rounded {

// nvcc contracts a * b + c into one rounding unless told otherwise; these never are.
SLIFT_HD float add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

SLIFT_HD float mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

SLIFT_HD float div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

SLIFT_HD float root(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

// One Horner step: p * x + c in two roundings.
SLIFT_HD float step(float p, float x, float c) { return add(mul(p, x), c); }

}  // namespace rounded

// Uniform in (0, 1]; multiples of 2^-33, never 0.
SLIFT_HD float philox_uniform(std::uint32_t x) {
  return rounded::step(static_cast<float>(x), 0x1p-32f, 0x1p-33f);
}

// Natural logarithm for x in (0, 1], relative error below 3e-7: ln(2^e m) = e ln 2 + 2 atanh(s),
// s = (m-1)/(m+1), m in [1/sqrt 2, sqrt 2).
SLIFT_HD float philox_log(float x) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const std::uint32_t shifted = bits - 0x3F3504F3u;  // sqrt(1/2) starts a new exponent
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const std::uint32_t mantissa = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float m;
  memcpy(&m, &mantissa, sizeof m);
  using rounded::step;
  const float s = rounded::div(rounded::add(m, -1.0f), rounded::add(m, 1.0f));
  const float z = rounded::mul(s, s);
  float series = step(0.2222222222f, z, 0.2857142857f);
  series = step(series, z, 0.4f);
  series = step(series, z, 0.6666666667f);
  series = step(series, z, 2.0f);
  return step(exponent, 0.6931471806f, rounded::mul(s, series));
}

struct NormalPair {
  float first, second;
};

// Two independent standard normals from two words (Box-Muller; |value| at most 6.8).
SLIFT_HD NormalPair philox_normal_pair(std::uint32_t a, std::uint32_t b) {
  using rounded::step;
  const float radius = rounded::root(rounded::mul(-2.0f, philox_log(philox_uniform(a))));
  // The angle is quadrant * pi/2 + r * pi/2 with r in [-1/2, 1/2).
  const std::uint32_t turned = b + 0x20000000u;
  const std::uint32_t quadrant = turned >> 30;
  const auto fraction =
      static_cast<float>(static_cast<std::int32_t>(turned & 0x3FFFFFFFu) - 0x20000000);
  const float x = rounded::mul(fraction, 1.4629180793e-9f);  // (pi/2) 2^-30
  const float z = rounded::mul(x, x);
  float sine = step(2.7557319224e-6f, z, -1.9841269841e-4f);
  sine = step(sine, z, 8.3333333333e-3f);
  sine = step(sine, z, -1.6666666667e-1f);
  sine = step(rounded::mul(sine, z), x, x);
  float cosine = step(2.4801587302e-5f, z, -1.3888888889e-3f);
  cosine = step(cosine, z, 4.1666666667e-2f);
  cosine = step(cosine, z, -0.5f);
  cosine = step(cosine, z, 1.0f);
  const bool swap = (quadrant & 1u) != 0;
  const float c = swap ? sine : cosine;
  const float s = swap ? cosine : sine;
  const float c_signed = (quadrant == 1u || quadrant == 2u) ? -c : c;
  const float s_signed = (quadrant & 2u) != 0 ? -s : s;
  return {rounded::mul(radius, c_signed), rounded::mul(radius, s_signed)};
}

}  // namespace slift
