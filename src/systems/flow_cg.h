// Preconditioned conjugate gradients for the pressure (Saad, "Iterative Methods for Sparse Linear
// Systems", 2003, algorithm 9.1).
//
// How good is a residual of 1e-10? It is the rate at which cells gain or lose fluid by error.
// Errors of the fluxes are themselves a flow, with the residual as its source, so none exceeds the
// sum of the residuals, whatever the permeabilities: below 1e-8 for 10^4 cells and wells of rate 1.
#pragma once

#include "systems/flow_grid.h"

namespace slift::flow {

constexpr double kPressureTolerance = 1e-10;  // of the residual's norm, relative to the sources'
constexpr int kPressureIterations = 200;      // more means failure; about 12 and 20 are usual

// [cells] each; direction with room for the reads around it (flow_grid.h).
struct CgArrays {
  double *residual, *preconditioned, *direction, *image;
};

// Solves a p = source from the guess in p. precondition() sets arrays.preconditioned, from
// arrays.residual, by one and the same symmetric positive definite matrix every time. Returns the
// number of iterations, or -1 if kPressureIterations were not enough or numbers went wrong.
template <typename Team, typename Precondition>
SLIFT_TEAM int conjugate_gradients(const Team& team, const TwoPointOperator& a,
                                   const double* source, double* p, const CgArrays& arrays,
                                   const Precondition& precondition) {
  double *const r = arrays.residual, *const z = arrays.preconditioned;
  double *const d = arrays.direction, *const ad = arrays.image;
  const int n = a.grid.cells();
  const double scale = sum_each(team, n, [=](int i) { return source[i] * source[i]; });
  const double enough = kPressureTolerance * kPressureTolerance * scale;
  double error = sum_each(team, n, [=](int i) {
    r[i] = source[i] - a.row(p, i);
    d[i] = 0;
    return r[i] * r[i];
  });
  double rz_before = 1;
  for (int iteration = 0; iteration <= kPressureIterations; ++iteration) {
    if (error <= enough) return iteration;
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
      p[i] += alpha * d[i];
      r[i] -= alpha * ad[i];
      return r[i] * r[i];
    });
    rz_before = rz;
  }
  return -1;
}

}  // namespace slift::flow
