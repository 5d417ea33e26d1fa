// One outer step of two-phase flow in a reservoir: the pressure for the mobilities of the moment,
// then transport with its fluxes held fixed (IMPES: implicit pressure, explicit saturation).
#pragma once

#include <vector>

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

// The right-hand side of the pressure equation.
inline std::vector<double> well_sources(const Reservoir& reservoir) {
  std::vector<double> sources(static_cast<std::size_t>(reservoir.grid.cells()));
  sources.front() = reservoir.rate;
  sources.back() = -reservoir.rate;
  return sources;
}

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
        f(plan.take_padded(grid)),
        f_next(plan.take_padded(grid)) {}

  int saturation, pressure;       // the state
  int conductivity, west, north;  // K lambda of cells, transmissibilities of faces
  int flux_west, flux_north, f, f_next;
};

// Advances saturation and pressure by reservoir.dt. `solve(a, p)` must solve for the pressure from
// the guess in p and say whether it could; if not, the step returns false with the saturation
// untouched.
template <typename Team, typename Solve>
SLIFT_TEAM bool advance(const Team& team, const Reservoir& reservoir, const StepLayout& layout,
                        const double* permeability, double* workspace, const Solve& solve) {
  const Grid grid = reservoir.grid;
  const Fluids fluids = reservoir.fluids;
  double *const s = workspace + layout.saturation, *const p = workspace + layout.pressure;
  double* const k = workspace + layout.conductivity;
  for_each(team, grid.cells(),
           [=](int i) { k[i] = permeability[i] * fluids.total_mobility(s[i]); });
  TwoPointOperator a = {grid, {workspace + layout.west, workspace + layout.north}};
  set_transmissibilities(team, grid, k, a.t);
  a.pin = a.diagonal(0);
  if (!solve(a, p)) return false;
  const Faces flux = {workspace + layout.flux_west, workspace + layout.flux_north};
  set_fluxes(team, a, p, flux);
  set_wells(team, grid, reservoir.rate, flux);
  const int substeps =
      count_substeps(team, grid, flux, fluids, reservoir.dt, reservoir.pore_volume);
  transport(team, grid, flux, fluids, reservoir.dt, reservoir.pore_volume, substeps, s,
            workspace + layout.f, workspace + layout.f_next);
  return true;
}

}  // namespace slift::flow
