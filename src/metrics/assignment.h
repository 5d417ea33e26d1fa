// The linear assignment problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slift {

// Column assigned to each row of the square matrix `cost` [n, n], finite, so that the total cost is
// least. Shortest augmenting paths (Jonker & Volgenant 1987), O(n^3).
std::vector<std::int32_t> solve_assignment(std::span<const float> cost, std::int64_t n);

}  // namespace slift
