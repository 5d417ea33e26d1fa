#include "metrics/crps.h"

#include <cstdint>
#include <stdexcept>

namespace slift {

// With F and G the shares of members and of verifications below z,
//   mean_{i, k} |x_i - y_k| = int F (1 - G) + G (1 - F) dz,
//   mean_{i != j} |x_i - x_j| = 2 n / (n - 1) int F (1 - F) dz.
// The integrands are constant between neighbours of the merged points. Their difference is taken in
// whole numbers, so nothing cancels, however far from 0 or from each other the points lie: the gap
// below a lone outlier counts nothing at all.
double fair_crps(std::span<const float> ensemble, std::span<const float> verifications) {
  const std::span<const float> x = ensemble, y = verifications;
  if (x.size() < 2) throw std::logic_error("fair_crps: fewer than two members");
  if (y.empty()) throw std::logic_error("fair_crps: no verification");
  const std::int64_t n = std::ssize(x), m = std::ssize(y);
  double sum = 0, z = 0;
  std::int64_t i = 0, k = 0;  // so many members and verifications lie below z or at it
  while (i < n || k < m) {
    const bool is_member =
        k == m || (i < n && x[static_cast<std::size_t>(i)] <= y[static_cast<std::size_t>(k)]);
    const double next = is_member ? x[static_cast<std::size_t>(i)] : y[static_cast<std::size_t>(k)];
    const std::int64_t between = i * (m - k) + k * (n - i), within = i * (n - i);
    sum += (next - z) * static_cast<double>((n - 1) * between - m * within);
    z = next;  // at the first point nothing lies below: it counts 0
    is_member ? ++i : ++k;
  }
  return sum / (static_cast<double>(n) * static_cast<double>(m) * static_cast<double>(n - 1));
}

}  // namespace slift
