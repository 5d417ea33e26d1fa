#include "metrics/wasserstein.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "core/random.h"
#include "metrics/assignment.h"
#include "metrics/saturated.h"

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

std::vector<float> project(std::span<const float> points, std::int64_t dim,
                           std::span<const float> direction) {
  const auto width = static_cast<std::size_t>(dim);
  std::vector<float> values(points.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double dot = 0;
    for (std::size_t c = 0; c < width; ++c) {
      dot += static_cast<double>(points[i * width + c]) * direction[c];
    }
    values[i] = saturated(dot);
  }
  return values;
}

std::vector<std::int32_t> ascending_order(std::span<const float> values) {
  // Sorting whole words is several times faster than sorting indices by a looked-up key: the upper
  // half is the value mapped to an unsigned number of the same order, the lower half the index.
  std::vector<std::uint64_t> keys(values.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i] + 0.0f);  // -0 counts as 0
    const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    keys[i] = (static_cast<std::uint64_t>(ordered) << 32) | i;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int32_t> order(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    order[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(keys[i]));
  }
  return order;
}

double sliced_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                 std::span<const float> directions) {
  const auto width = static_cast<std::size_t>(dim);
  const std::size_t count = directions.size() / width;
  double total = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const auto direction = directions.subspan(k * width, width);
    std::vector<float> shadow_a = project(a, dim, direction), shadow_b = project(b, dim, direction);
    std::sort(shadow_a.begin(), shadow_a.end());
    std::sort(shadow_b.begin(), shadow_b.end());
    total += w2_squared_sorted(shadow_a, shadow_b);
  }
  return std::sqrt(total / static_cast<double>(count));
}

double exact_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim) {
  if (a.size() != b.size() || a.empty()) throw std::logic_error("exact_w2: sizes differ");
  const auto width = static_cast<std::size_t>(dim);
  const std::size_t n = a.size() / width;
  const auto squared_distance = [&](std::size_t i, std::size_t j) {
    double squares = 0;
    for (std::size_t c = 0; c < width; ++c) {
      const double d = static_cast<double>(a[i * width + c]) - b[j * width + c];
      squares += d * d;
    }
    return squares;
  };
  // In units of the largest: whatever the unit of the points, their squares fit float.
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, squared_distance(i, j));
  }
  if (largest == 0) return 0;
  std::vector<float> cost(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      cost[i * n + j] = static_cast<float>(squared_distance(i, j) / largest);
    }
  }
  const auto assigned = solve_assignment(cost, static_cast<std::int64_t>(n));
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    total += squared_distance(i, static_cast<std::size_t>(assigned[i]));
  }
  return std::sqrt(total / static_cast<double>(n));
}

}  // namespace slift
