#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"

namespace slift::kernels::cpu {
namespace {

// exp(x) for |x| <= 87, relative error below 2e-7, in a form that compilers vectorise: x = k ln 2 +
// r with |r| <= ln(2)/2, a polynomial for exp(r), and k added to the exponent bits.
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

struct Gelu {
  static float z(float x) { return 1.59576912f * (x + 0.044715f * x * x * x); }
  static float slope(float x) { return 1.59576912f * (1.0f + 0.134145f * x * x); }
};

struct Silu {
  static float z(float x) { return x; }
  static float slope(float) { return 1.0f; }
};

template <typename F>
void forward(std::int64_t n, const float* x, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * sigmoid(F::z(x[i]));
}

template <typename F>
void backward(std::int64_t n, const float* x, const float* grad_out, float* grad_x) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float s = sigmoid(F::z(x[i]));
    grad_x[i] = grad_out[i] * (s + x[i] * s * (1.0f - s) * F::slope(x[i]));
  }
}

}  // namespace

void activation(Activation f, std::int64_t n, const float* x, float* out) {
  f == Activation::kSilu ? forward<Silu>(n, x, out) : forward<Gelu>(n, x, out);
}

void activation_backward(Activation f, std::int64_t n, const float* x, const float* grad_out,
                         float* grad_x) {
  f == Activation::kSilu ? backward<Silu>(n, x, grad_out, grad_x)
                         : backward<Gelu>(n, x, grad_out, grad_x);
}

}  // namespace slift::kernels::cpu
