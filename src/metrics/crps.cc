#include "metrics/crps.h"

#include <stdexcept>

namespace slift {

// With F and G the shares of members and of verifications below z,
//   mean_{i, k} |x_i - y_k| = int F (1 - G) + G (1 - F) dz,
//   mean_{i != j} |x_i - x_j| = 2 n / (n - 1) int F (1 - F) dz.
// The integrands are constant between neighbours of the merged points. No term is negative, so
// nothing cancels however far from 0 the points lie.
double fair_crps(std::span<const float> ensemble, std::span<const float> verifications) {
  const std::span<const float> x = ensemble, y = verifications;
  if (x.size() < 2) throw std::logic_error("fair_crps: fewer than two members");
  if (y.empty()) throw std::logic_error("fair_crps: no verification");
  const auto n = static_cast<double>(x.size()), m = static_cast<double>(y.size());
  double between = 0, within = 0, z = 0;
  std::size_t i = 0, k = 0;  // so many members and verifications lie below z or at it
  while (i < x.size() || k < y.size()) {
    const bool is_member = k == y.size() || (i < x.size() && x[i] <= y[k]);
    const double next = is_member ? x[i] : y[k];
    const double gap = next - z;  // of no account at the first point: nothing lies below it
    const auto x_below = static_cast<double>(i), y_below = static_cast<double>(k);
    between += gap * (x_below * (m - y_below) + y_below * (n - x_below));
    within += gap * (x_below * (n - x_below));
    z = next;
    is_member ? ++i : ++k;
  }
  return between / (n * m) - within / (n * (n - 1));
}

}  // namespace slift
