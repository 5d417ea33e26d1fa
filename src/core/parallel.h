// Spreads independent work over the threads LibTorch and OpenBLAS share (OpenMP's).
#pragma once

#include <cstdint>
#include <exception>

namespace slift {

// Calls body(i) for i in [0, n), in any order and possibly at once; what it writes must depend on i
// alone. If some throw, one of their exceptions is thrown when all are done.
template <typename Body>
void parallel_for(std::int64_t n, const Body& body) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace slift
