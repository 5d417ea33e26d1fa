#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace slift::kernels::cpu {

void adamw(const AdamWStep& s, std::int64_t n, const float* __restrict grad,
           float* __restrict param, float* __restrict first, float* __restrict second,
           float* __restrict ema) {
  const float decay = 1 - s.lr * s.weight_decay;
  const float rate = s.lr / s.correction1;
  const float root_scale = 1 / std::sqrt(s.correction2);
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * s.grad_scale;
    const float m = first[i] + s.rate1 * (g - first[i]);
    const float v = second[i] + s.rate2 * (g * g - second[i]);
    const float p = param[i] * decay - rate * m / (std::sqrt(v) * root_scale + s.eps);
    first[i] = m;
    second[i] = v;
    param[i] = p;
    ema[i] += s.ema_rate * (p - ema[i]);
  }
}

double sum_of_squares(const float* x, std::int64_t n) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  const std::int64_t whole = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  for (std::int64_t i = whole; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * x[i];
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

}  // namespace slift::kernels::cpu
