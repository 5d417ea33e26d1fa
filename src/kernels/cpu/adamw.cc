#include "kernels/adamw_math.h"
#include "kernels/kernels.h"

namespace slift::kernels::cpu {

void adamw(const AdamWStep& step, double norm, std::int64_t n, const float* __restrict grad,
           float* __restrict param, float* __restrict first, float* __restrict second,
           float* __restrict ema) {
  const AdamWRates rates = adamw_rates(step, norm);
  for (std::int64_t i = 0; i < n; ++i) {
    adamw_update(rates, grad[i], param[i], first[i], second[i], ema[i]);
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
