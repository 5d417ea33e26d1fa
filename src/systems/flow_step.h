// One outer step of two-phase flow in a reservoir: the pressure for the mobilities of the moment,
// then transport with its fluxes held fixed (IMPES: implicit pressure, explicit saturation).
#pragma once

#include "systems/flow_grid.h"
#include "systems/flow_physics.h"
#include "systems/flow_transport.h"

namespace slift::flow {

struct Reservoir {
  Grid grid;
  Fluids fluids;
  double dt;           // outer step
  double pore_volume;  // of a cell
  double rate;         // of the injector in the first cell and the producer in the last one
};

// Where the arrays of one trajectory stand in its workspace, which must be zeroed once.
struct StepLayout {
  StepLayout(Grid grid, WorkspacePlan& plan)
      : saturation(plan.take_padded(grid)),
        pressure(plan.take_padded(grid)),
        conductivity(plan.take(grid.cells())),
        west(plan.take(grid.cells() + 1)),
        north(plan.take(grid.cells() + grid.nx)),
        flux_west(plan.take(grid.cells() + 1)),
        flux_north(plan.take(grid.cells() + grid.nx)),
        imbalance(plan.take(grid.cells())),
        correction(plan.take_padded(grid)),
        f(plan.take_padded(grid)),
        f_next(plan.take_padded(grid)) {}

  int saturation, pressure;       // the state
  int conductivity, west, north;  // K lambda of cells, transmissibilities of faces
  int flux_west, flux_north;
  int imbalance, correction;  // what the fluxes lack to conserve volume, the pressure that mends it
  int f, f_next;              // fractional flow
};

// Fluxes through the faces that conserve volume in every cell, starting from the pressure p, which
// is updated. `solve(a, rhs, tolerance, x)` solves a x = rhs as conjugate_gradients() does and says
// whether it could.
//
// The norm of what cells gain or lose by error is brought to kImbalance of the wells' rate. Errors
// of fluxes are themselves a flow with that as its source, so none exceeds its sum, whatever the
// permeabilities: 1e-8 for 10^4 cells. The fluxes of p alone would not do. Where K is large and p
// too, differences of p are lost in its rounding (imbalances of 1e-9 for sigma = 3 and of 1e-5 for
// sigma = 4 were seen); so fluxes are corrected by those of ever smaller pressures.
constexpr double kImbalance = 1e-10;
constexpr int kCorrections = 4;  // 1 or 2 are usual

template <typename Team, typename Solve>
SLIFT_TEAM bool balance_fluxes(const Team& team, const TwoPointOperator& a, double rate, double* p,
                               const Faces& flux, double* imbalance, double* correction,
                               const Solve& solve) {
  const Grid grid = a.grid;
  const double tolerance = kImbalance * rate;
  set_wells(team, grid, rate, flux);
  add_fluxes(team, a, p, flux);
  for (int round = 0;; ++round) {
    const double error = sum_each(team, grid.cells(), [=](int i) {
      imbalance[i] = net_inflow(grid, flux, i);
      return imbalance[i] * imbalance[i];
    });
    if (error <= tolerance * tolerance) return true;
    if (round == kCorrections || !solve(a, imbalance, tolerance / 2, correction)) return false;
    add_fluxes(team, a, correction, flux);
    for_each(team, grid.cells(), [=](int i) { p[i] += correction[i]; });
  }
}

// Advances the reservoir by its dt. Returns false, with the saturation untouched, if the pressure
// could not be found; `solve` as in balance_fluxes().
template <typename Team, typename Solve>
SLIFT_TEAM bool advance(const Team& team, const Reservoir& reservoir, const StepLayout& layout,
                        const double* permeability, double* workspace, const Solve& solve) {
  const Grid grid = reservoir.grid;
  const Fluids fluids = reservoir.fluids;
  double* const s = workspace + layout.saturation;
  double* const k = workspace + layout.conductivity;
  for_each(team, grid.cells(),
           [=](int i) { k[i] = permeability[i] * fluids.total_mobility(s[i]); });
  TwoPointOperator a = {grid, {workspace + layout.west, workspace + layout.north}};
  set_transmissibilities(team, grid, k, a.t);
  a.pin = a.diagonal(0);
  const Faces flux = {workspace + layout.flux_west, workspace + layout.flux_north};
  if (!balance_fluxes(team, a, reservoir.rate, workspace + layout.pressure, flux,
                      workspace + layout.imbalance, workspace + layout.correction, solve)) {
    return false;
  }
  const int substeps =
      count_substeps(team, grid, flux, fluids, reservoir.dt, reservoir.pore_volume);
  transport(team, grid, flux, fluids, reservoir.dt, reservoir.pore_volume, substeps, s,
            workspace + layout.f, workspace + layout.f_next);
  return true;
}

}  // namespace slift::flow
