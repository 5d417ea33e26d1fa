// What the tests of the flow solver share; for *_test.cc only.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "systems/flow_multigrid.h"
#include "systems/matern.h"
#include "systems/pressure.h"

namespace slift::flow {

// A pressure equation and its solution.
struct PressureProblem {
  static constexpr double kTolerance = 1e-10;

  PressureProblem(Grid grid, const std::vector<double>& conductivity)
      : west(static_cast<std::size_t>(grid.cells() + 1)),
        north(static_cast<std::size_t>(grid.cells() + grid.nx)),
        source(static_cast<std::size_t>(grid.cells())),
        padded(static_cast<std::size_t>(grid.cells() + 2 * grid.nx)) {
    a = {grid, {west.data(), north.data()}};
    set_transmissibilities(SerialTeam(), grid, conductivity.data(), a.t);
    a.pin = a.diagonal(0);
    source.front() = 1;
    source.back() = -1;
  }
  PressureProblem(const PressureProblem&) = delete;
  PressureProblem& operator=(const PressureProblem&) = delete;

  double* p() { return padded.data() + a.grid.nx; }

  int solve_direct() {
    return DirectPressure(PressurePattern(a.grid)).solve(a, source.data(), kTolerance, p());
  }

  template <typename Team = SerialTeam>
  int solve_multigrid(const Team& team = {}) {
    WorkspacePlan plan;
    const MultigridLayout layout(a.grid, plan);
    std::vector<double> workspace(static_cast<std::size_t>(plan.size()));
    return Multigrid(team, layout, a, workspace.data()).solve(source.data(), kTolerance, p());
  }

  // The norm of source - a p.
  double residual() {
    double sum = 0;
    for (int i = 0; i < a.grid.cells(); ++i) {
      sum += std::pow(source[static_cast<std::size_t>(i)] - a.row(p(), i), 2);
    }
    return std::sqrt(sum);
  }

  // What it may be: the tolerance, and what rounding p to double precision makes of it.
  double allowed_residual() {
    double sum = 0;
    for (int i = 0; i < a.grid.cells(); ++i) sum += std::pow(a.diagonal(i) * p()[i], 2);
    return kTolerance + 1e-15 * std::sqrt(sum);
  }

  TwoPointOperator a;
  std::vector<double> west, north, source, padded;
};

// The exponential of a Matern field with sigma 3: contrasts up to e^18.
inline std::vector<double> random_conductivity(Grid grid, double length, std::uint64_t index) {
  const int side = std::max(grid.nx, grid.ny);
  std::vector<double> first(static_cast<std::size_t>(side * side)), second(first.size());
  MaternField(side, 3, length).sample_pair({3, Purpose::kSystemNoise, index, 0}, first, second);
  std::vector<double> k;
  for (int i = 0; i < grid.cells(); ++i) {
    k.push_back(std::exp(first[static_cast<std::size_t>(i / grid.nx * side + i % grid.nx)]));
  }
  return k;
}

}  // namespace slift::flow
