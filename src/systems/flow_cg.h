// Preconditioned conjugate gradients for the pressure equation (Saad, "Iterative Methods for Sparse
// Linear Systems", 2003, algorithm 9.1).
#pragma once

#include "systems/flow_grid.h"

namespace slift::flow {

constexpr int kMaxIterations = 500;  // more means failure; 10 to 25 are usual

// [cells] each; direction with room for the reads around it (flow_grid.h).
struct CgArrays {
  double *residual, *preconditioned, *direction, *image;
};

// Solves a x = rhs, until the norm of rhs - a x is at most `tolerance` but for the rounding of x.
// precondition() must set arrays.preconditioned from arrays.residual, by one and the same symmetric
// positive definite matrix every time. Returns the number of iterations, or -1 if kMaxIterations
// were not enough or numbers went wrong.
template <typename Team, typename Precondition>
SLIFT_TEAM int conjugate_gradients(const Team& team, const TwoPointOperator& a, const double* rhs,
                                   double tolerance, double* x, const CgArrays& arrays,
                                   const Precondition& precondition) {
  double *const r = arrays.residual, *const z = arrays.preconditioned;
  double *const d = arrays.direction, *const ad = arrays.image;
  const int n = a.grid.cells();
  double error = sum_each(team, n, [=](int i) {
    r[i] = rhs[i];
    x[i] = d[i] = 0;
    return r[i] * r[i];
  });
  double rz_before = 1;
  for (int iteration = 0;; ++iteration) {
    if (error <= tolerance * tolerance) return iteration;
    if (iteration == kMaxIterations) return -1;
    precondition();
    const double rz = sum_each(team, n, [=](int i) { return r[i] * z[i]; });
    const double beta = rz / rz_before;  // of no effect at first, when d is 0
    for_each(team, n, [=](int i) { d[i] = z[i] + beta * d[i]; });
    const double dad = sum_each(team, n, [=](int i) {
      ad[i] = a.row(d, i);
      return d[i] * ad[i];
    });
    const double alpha = rz / dad;
    error = sum_each(team, n, [=](int i) {
      x[i] += alpha * d[i];
      r[i] -= alpha * ad[i];
      return r[i] * r[i];
    });
    rz_before = rz;
  }
}

}  // namespace slift::flow
