// The activations' maths for one float, in forms that compilers vectorise; shared by the CPU
// kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace slift::kernels::cpu {

// exp(x) for |x| <= 87, relative error below 2e-7: x = k ln 2 + r with |r| <= ln(2)/2, a polynomial
// for exp(r), and k added to the exponent bits.
inline float exponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  std::int32_t bits;
  std::memcpy(&bits, &p, sizeof bits);
  bits += static_cast<std::int32_t>(k) << 23;
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

inline float sigmoid(float z) {
  return 1.0f / (1.0f + exponential(std::min(87.0f, std::max(-87.0f, -z))));
}

// f(x) = x sigmoid(z(x)) and f'(x), with `F` one of those below: z and its slope.
template <typename F>
float activate(float x) {
  return x * sigmoid(F::z(x));
}

template <typename F>
float activation_slope(float x) {
  const float s = sigmoid(F::z(x));
  return s + x * s * (1.0f - s) * F::slope(x);
}

struct Gelu {
  static float z(float x) { return 1.59576912f * (x + 0.044715f * x * x * x); }
  static float slope(float x) { return 1.59576912f * (1.0f + 0.134145f * x * x); }
};

struct Silu {
  static float z(float x) { return x; }
  static float slope(float) { return 1.0f; }
};

}  // namespace slift::kernels::cpu
