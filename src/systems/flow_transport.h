// Transport of water with the flow, phi s_t + div(f(s) v) = 0, by the explicit upwind scheme:
//
//   s_i += dt / pore volume * sum over faces of (inflow f(s_upstream) - outflow f(s_i)).
//
// Fluxes are volumes per time, positive to the right and downwards. Wells are fluxes through the
// edge, and what enters there is water. The scheme conserves water exactly and, with
// count_substeps(), is monotone: saturations stay within [s_wc, 1 - s_or] (LeVeque, "Finite Volume
// Methods for Hyperbolic Problems", 2002, section 12.12).
#pragma once

#include <cmath>

#include "systems/flow_grid.h"
#include "systems/flow_physics.h"

namespace slift::flow {

// No flux but that of the wells: `rate` into the first cell, through its upper face, and out of the
// last one, through its lower face.
template <typename Team>
SLIFT_TEAM void set_wells(const Team& team, Grid grid, double rate, const Faces& flux) {
  const int n = grid.cells(), producer = n - 1 + grid.nx;
  for_each(team, n + 1, [=](int i) { flux.west[i] = 0; });
  for_each(team, n + grid.nx, [=](int i) { flux.north[i] = i == 0 || i == producer ? rate : 0; });
}

// How many sub-steps a step of dt needs for inflow * max f' * dt <= pore volume in every cell.
// There is a margin of 1e-4 because the bound can be a whole number (the wells' inflow is exact),
// and the last bits of a flux must not decide between it and the next.
template <typename Team>
SLIFT_TEAM int count_substeps(const Team& team, Grid grid, const Faces& flux, const Fluids& fluids,
                              double dt, double pore_volume) {
  const int nx = grid.nx;
  const auto positive = [](double v) { return v > 0 ? v : 0; };
  const double inflow = max_each(team, grid.cells(), [=](int i) {
    return positive(flux.west[i]) + positive(-flux.west[i + 1]) + positive(flux.north[i]) +
           positive(-flux.north[i + nx]);
  });
  return static_cast<int>(ceil(1.0001 * inflow * fluids.steepest_flow() * dt / pore_volume));
}

// Moves the saturations s on by dt in equal sub-steps. f and f_next are scratch, and like s need
// room for the reads around them (flow_grid.h).
template <typename Team>
SLIFT_TEAM void transport(const Team& team, Grid grid, const Faces& flux, const Fluids& fluids,
                          double dt, double pore_volume, int substeps, double* s, double* f,
                          double* f_next) {
  const int nx = grid.nx, n = grid.cells();
  const double scale = dt / pore_volume / substeps;
  const auto upwind = [](double v, double before, double after) {
    return v * (v > 0 ? before : after);
  };
  for_each(team, nx, [=](int i) {
    f[i - nx] = f_next[i - nx] = 1;  // above the first row there is water
    f[i + n] = f_next[i + n] = 0;
  });
  for_each(team, n, [=](int i) { f[i] = fluids.fractional_flow(s[i]); });
  for (int step = 0; step < substeps; ++step) {
    for_each(team, n, [=](int i) {
      const double here = f[i], left = f[i - 1], right = f[i + 1], up = f[i - nx], down = f[i + nx];
      const double gain = upwind(flux.west[i], left, here) - upwind(flux.west[i + 1], here, right) +
                          upwind(flux.north[i], up, here) - upwind(flux.north[i + nx], here, down);
      s[i] += scale * gain;
      f_next[i] = fluids.fractional_flow(s[i]);
    });
    double* const done = f;
    f = f_next;
    f_next = done;
  }
}

}  // namespace slift::flow
