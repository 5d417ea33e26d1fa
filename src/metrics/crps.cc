#include "metrics/crps.h"

#include <stdexcept>

#include "metrics/weighted_points.h"

namespace slift {

namespace {

// With F and G the shares of members and of verifications below z,
//   mean_{i, k} |x_i - y_k| = int F (1 - G) + G (1 - F) dz,
//   mean_{i != j} |x_i - x_j| = 2 n / (n - 1) int F (1 - F) dz.
// The integrands are constant between neighbours of the merged points. No term is negative, so
// nothing cancels however far from 0 the points lie.
double integrate_crps(const WeightedPoints& x, const WeightedPoints& y) {
  if (x.count < 2) throw std::logic_error("fair_crps: fewer than two members");
  if (y.count < 1) throw std::logic_error("fair_crps: no verification");
  double between = 0, within = 0;
  double x_below = 0, y_below = 0, z = 0;
  std::size_t i = 0, k = 0;
  while (i < x.size() || k < y.size()) {
    const bool is_member = k == y.size() || (i < x.size() && x.values[i] <= y.values[k]);
    const double next = is_member ? x.values[i] : y.values[k];
    const double gap = next - z;  // of no account at the first point: nothing lies below it
    between += gap * (x_below * (y.count - y_below) + y_below * (x.count - x_below));
    within += gap * (x_below * (x.count - x_below));
    z = next;
    if (is_member) {
      x_below += x.weight(i++);
    } else {
      y_below += y.weight(k++);
    }
  }
  return between / (x.count * y.count) - within / (x.count * (x.count - 1));
}

}  // namespace

double fair_crps(std::span<const float> ensemble, std::span<const float> verifications) {
  return integrate_crps(WeightedPoints(ensemble), WeightedPoints(verifications));
}

double fair_crps(std::span<const float> ensemble, std::span<const float> ensemble_weights,
                 std::span<const float> verifications,
                 std::span<const float> verification_weights) {
  return integrate_crps(WeightedPoints(ensemble, ensemble_weights),
                        WeightedPoints(verifications, verification_weights));
}

}  // namespace slift
