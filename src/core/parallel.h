// Spreads independent work over the threads LibTorch and OpenBLAS share (OpenMP's).
#pragma once

#include <cstdint>

namespace slift {

// Calls body(i) for i in [0, n), in any order and possibly at once. `body` must not throw, and what
// it writes must depend on i alone.
template <typename Body>
void parallel_for(std::int64_t n, const Body& body) {
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace slift
