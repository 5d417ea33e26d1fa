#include "metrics/assignment.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace slift {

std::vector<std::int32_t> solve_assignment(std::span<const float> cost, std::int64_t size) {
  const auto n = static_cast<std::size_t>(size);
  constexpr std::size_t kFree = static_cast<std::size_t>(-1);
  std::vector<double> row_price(n, 0), column_price(n, 0), shortest(n);
  std::vector<std::size_t> row_of(n, kFree), column_of(n, kFree), previous(n);
  std::vector<char> done(n);
  for (std::size_t start = 0; start < n; ++start) {
    // Dijkstra over reduced costs from row `start` to the nearest free column.
    std::fill(shortest.begin(), shortest.end(), std::numeric_limits<double>::infinity());
    std::fill(done.begin(), done.end(), 0);
    std::size_t row = start, sink = kFree;
    double reached = 0;
    while (sink == kFree) {
      std::size_t best = kFree;
      double least = std::numeric_limits<double>::infinity();
      const float* costs = cost.data() + row * n;
      for (std::size_t j = 0; j < n; ++j) {
        if (done[j]) continue;
        const double path = reached + costs[j] - row_price[row] - column_price[j];
        if (path < shortest[j]) {
          shortest[j] = path;
          previous[j] = row;
        }
        if (shortest[j] < least) {
          least = shortest[j];
          best = j;
        }
      }
      if (best == kFree) throw std::logic_error("solve_assignment: costs must be finite");
      done[best] = 1;
      reached = least;
      if (row_of[best] == kFree) {
        sink = best;
      } else {
        row = row_of[best];
      }
    }
    row_price[start] += reached;
    for (std::size_t j = 0; j < n; ++j) {
      if (!done[j]) continue;
      const double slack = reached - shortest[j];
      column_price[j] -= slack;
      if (j != sink) row_price[row_of[j]] += slack;
    }
    for (std::size_t column = sink;;) {
      const std::size_t from = previous[column];
      row_of[column] = from;
      std::swap(column, column_of[from]);
      if (from == start) break;
    }
  }
  return {column_of.begin(), column_of.end()};
}

}  // namespace slift
