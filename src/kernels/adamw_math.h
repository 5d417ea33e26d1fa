// The AdamW step of one element (kernels.h), in one text for the CPU and CUDA.
#pragma once

#include <cmath>

#include "kernels/kernels.h"

namespace slift::kernels {

// What all elements of a step share.
struct AdamWRates {
  float grad_scale, decay, rate1, rate2, rate, root_scale, eps, ema_rate;
};

SLIFT_HD AdamWRates adamw_rates(const AdamWStep& s, double norm) {
  const bool clipped = s.clip > 0 && norm > s.clip;
  return {clipped ? static_cast<float>(s.clip / norm) : 1.0f,
          1 - s.lr * s.weight_decay,
          s.rate1,
          s.rate2,
          s.lr / s.correction1,
          1 / std::sqrt(s.correction2),
          s.eps,
          s.ema_rate};
}

SLIFT_HD void adamw_update(const AdamWRates& r, float grad, float& param, float& first,
                           float& second, float& ema) {
  const float g = grad * r.grad_scale;
  const float m = first + r.rate1 * (g - first);
  const float v = second + r.rate2 * (g * g - second);
  const float p = param * r.decay - r.rate * m / (std::sqrt(v) * r.root_scale + r.eps);
  first = m;
  second = v;
  param = p;
  ema += r.ema_rate * (p - ema);
}

}  // namespace slift::kernels
