#include "metrics/wasserstein.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "core/random.h"
#include "metrics/assignment.h"

namespace slift {

double w2_squared_sorted(std::span<const float> a, std::span<const float> b) {
  const std::size_t n = a.size(), m = b.size();
  if (n == 0 || m == 0) throw std::logic_error("w2: empty sample");
  double total = 0;
  if (n == m) {
    for (std::size_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(a[i]) - b[i];
      total += d * d;
    }
    return total / static_cast<double>(n);
  }
  // In units of 1/(n m), sample i of `a` covers [i m, (i+1) m) and j of `b` [j n, (j+1) n): whole
  // numbers, so the merge has no rounding.
  std::size_t i = 0, j = 0, at = 0;
  while (i < n && j < m) {
    const std::size_t until = std::min((i + 1) * m, (j + 1) * n);
    const double d = static_cast<double>(a[i]) - b[j];
    total += d * d * static_cast<double>(until - at);
    at = until;
    if (at == (i + 1) * m) ++i;
    if (at == (j + 1) * n) ++j;
  }
  return total / (static_cast<double>(n) * static_cast<double>(m));
}

double w2_squared_sorted(std::span<const float> a, std::span<const float> weight_a,
                         std::span<const float> b, std::span<const float> weight_b) {
  const double total_a = std::accumulate(weight_a.begin(), weight_a.end(), 0.0);
  const double total_b = std::accumulate(weight_b.begin(), weight_b.end(), 0.0);
  if (total_a <= 0 || total_b <= 0) throw std::logic_error("w2: weights must be positive");
  double total = 0;
  std::size_t i = 0, j = 0;
  double left_a = weight_a[0] / total_a, left_b = weight_b[0] / total_b;
  while (true) {
    const double mass = std::min(left_a, left_b);
    const double d = static_cast<double>(a[i]) - b[j];
    total += mass * d * d;
    left_a -= mass;
    left_b -= mass;
    if (left_a <= 0) {
      if (++i == a.size()) break;
      left_a = weight_a[i] / total_a;
    }
    if (left_b <= 0) {
      if (++j == b.size()) break;
      left_b = weight_b[j] / total_b;
    }
  }
  return total;
}

std::vector<float> slicing_directions(std::int64_t dim, std::int64_t count) {
  if (dim == 1) return {1.0f};
  std::vector<float> directions(static_cast<std::size_t>(dim * count));
  for (std::int64_t k = 0; k < count; ++k) {
    const auto row = std::span(directions)
                         .subspan(static_cast<std::size_t>(k * dim), static_cast<std::size_t>(dim));
    if (dim == 2) {
      const double angle = std::numbers::pi * static_cast<double>(k) / static_cast<double>(count);
      row[0] = static_cast<float>(std::cos(angle));
      row[1] = static_cast<float>(std::sin(angle));
      continue;
    }
    fill_normal({0, Purpose::kDirections, static_cast<std::uint64_t>(k), 0}, row);
    const float length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0f));
    for (float& x : row) x /= length;
  }
  return directions;
}

std::vector<float> sorted_projection(std::span<const float> points, std::int64_t dim,
                                     std::span<const float> direction,
                                     std::vector<std::int32_t>* order) {
  const std::size_t n = points.size() / static_cast<std::size_t>(dim);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    double dot = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(dim); ++c) {
      dot += static_cast<double>(points[i * static_cast<std::size_t>(dim) + c]) * direction[c];
    }
    values[i] = static_cast<float>(dot);
  }
  if (order == nullptr) {
    std::sort(values.begin(), values.end());
    return values;
  }
  // Sorting whole words is several times faster than sorting indices by a looked-up key: the upper
  // half is the value mapped to an unsigned number of the same order, the lower half the index.
  std::vector<std::uint64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    keys[i] = (static_cast<std::uint64_t>(ordered) << 32) | i;
  }
  std::sort(keys.begin(), keys.end());
  order->resize(n);
  std::vector<float> sorted(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = static_cast<std::uint32_t>(keys[i]);
    (*order)[i] = static_cast<std::int32_t>(from);
    sorted[i] = values[from];
  }
  return sorted;
}

double sliced_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                 std::span<const float> directions) {
  const auto width = static_cast<std::size_t>(dim);
  const std::size_t count = directions.size() / width;
  double total = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const auto direction = directions.subspan(k * width, width);
    total += w2_squared_sorted(sorted_projection(a, dim, direction),
                               sorted_projection(b, dim, direction));
  }
  return std::sqrt(total / static_cast<double>(count));
}

double exact_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim) {
  if (a.size() != b.size() || a.empty()) throw std::logic_error("exact_w2: sizes differ");
  const auto width = static_cast<std::size_t>(dim);
  const std::size_t n = a.size() / width;
  std::vector<float> cost(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float squares = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const float d = a[i * width + c] - b[j * width + c];
        squares += d * d;
      }
      cost[i * n + j] = squares;
    }
  }
  const auto assigned = solve_assignment(cost, static_cast<std::int64_t>(n));
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    total += cost[i * n + static_cast<std::size_t>(assigned[i])];
  }
  return std::sqrt(total / static_cast<double>(n));
}

}  // namespace slift
