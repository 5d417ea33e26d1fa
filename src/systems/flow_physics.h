// Two fluids, water and oil, in one porous medium: mobilities and fractional flow (Aarnes, Gimse,
// Lie, "An introduction to the numerics of flow in porous media using Matlab", 2007).
//
//   s* = (s - s_wc) / (1 - s_wc - s_or)
//   lambda_w = s*^2 / mu_w,  lambda_o = (1 - s*)^2 / mu_o,  f = lambda_w / (lambda_w + lambda_o)
//
// s is the saturation of water, the share of the pores it fills; lambda = lambda_w + lambda_o.
#pragma once

#include "core/philox.h"

namespace slift::flow {

class Fluids {
 public:
  // Viscosities of water and oil, above 0; saturations that do not move, connate water and residual
  // oil, with s_wc + s_or below 1.
  Fluids(double mu_w, double mu_o, double s_wc, double s_or)
      : s_wc_(s_wc),
        scale_(1 / (1 - s_wc - s_or)),
        water_(1 / mu_w),
        oil_(1 / mu_o),
        steepest_flow_(find_steepest_flow()) {}

  SLIFT_HD double total_mobility(double saturation) const {
    const double s = (saturation - s_wc_) * scale_;
    return water_ * s * s + oil_ * (1 - s) * (1 - s);
  }

  // f(s), the share of water in what flows.
  SLIFT_HD double fractional_flow(double saturation) const {
    const double s = (saturation - s_wc_) * scale_;
    const double water = water_ * s * s;
    return water / (water + oil_ * (1 - s) * (1 - s));
  }

  SLIFT_HD double connate_water() const { return s_wc_; }

  // max f'(s): how much faster than the fluids, at most, a saturation travels.
  SLIFT_HD double steepest_flow() const { return steepest_flow_; }

 private:
  double find_steepest_flow() const {
    const double ratio = oil_ / water_;
    const auto slope = [=](double s) {
      const double total = s * s + ratio * (1 - s) * (1 - s);
      return 2 * ratio * s * (1 - s) / (total * total);
    };
    // f is S-shaped, so its slope rises, then falls: close in on the top by thirds.
    double left = 0, right = 1;
    for (int i = 0; i < 200; ++i) {
      const double third = (right - left) / 3;
      if (slope(left + third) < slope(right - third)) {
        left += third;
      } else {
        right -= third;
      }
    }
    return scale_ * slope(left);
  }

  double s_wc_, scale_, water_, oil_, steepest_flow_;
};

}  // namespace slift::flow
