// A rectangle of square cells, values on its faces, and the two-point flux operator.
//
// Everything is flat, row by row: cell i has its neighbours at i - 1, i + 1, i - nx, i + nx and its
// faces at west[i], west[i + 1], north[i], north[i + nx]. The value of a face on the edge of the
// rectangle is 0 (unless said otherwise), so loops need no cases there; they do read cell values up
// to nx places before the first cell and after the last one, which must be allocated and finite.
#pragma once

#include "core/philox.h"
#include "systems/flow_team.h"

namespace slift::flow {

struct Grid {
  int nx = 0, ny = 0;
  SLIFT_HD int cells() const { return nx * ny; }
};

// [cells + 1] and [cells + nx].
struct Faces {
  double* west;
  double* north;
};

// The matrix A of -div(k grad p): (A p)_i = sum over faces of t (p_i - p_neighbour), which for
// square cells does not depend on their size. Without flow through the edges p is defined up to a
// constant only; as in Aarnes et al., `pin` added to the first diagonal entry makes A positive
// definite and, the sources adding up to 0, makes p_0 = 0.
struct TwoPointOperator {
  Grid grid;
  Faces t;
  double pin = 0;

  SLIFT_HD double row(const double* p, int i) const {
    const double x = p[i];
    const double flux = t.west[i] * (x - p[i - 1]) + t.west[i + 1] * (x - p[i + 1]) +
                        t.north[i] * (x - p[i - grid.nx]) +
                        t.north[i + grid.nx] * (x - p[i + grid.nx]);
    return i == 0 ? flux + pin * x : flux;
  }
  SLIFT_HD double diagonal(int i) const {
    const double sum = t.west[i] + t.west[i + 1] + t.north[i] + t.north[i + grid.nx];
    return i == 0 ? sum + pin : sum;
  }
};

// Places the arrays of one problem behind each other in a workspace of doubles. Host only.
class WorkspacePlan {
 public:
  int take(int count) {
    const int at = size_;
    size_ += count;
    return at;
  }
  // One value a cell, with room for the reads around them.
  int take_padded(Grid grid) { return take(grid.cells() + 2 * grid.nx) + grid.nx; }
  int size() const { return size_; }

 private:
  int size_ = 0;
};

// Transmissibilities: the harmonic mean of the conductivities on both sides of a face.
template <typename Team>
SLIFT_TEAM void set_transmissibilities(const Team& team, Grid grid, const double* k, Faces t) {
  const int nx = grid.nx, n = grid.cells();
  const auto harmonic = [](double a, double b) { return 2 * a * b / (a + b); };
  for_each(team, n + 1, [=](int i) { t.west[i] = i % nx == 0 ? 0 : harmonic(k[i - 1], k[i]); });
  for_each(team, n + nx,
           [=](int i) { t.north[i] = i < nx || i >= n ? 0 : harmonic(k[i - nx], k[i]); });
}

// Adds the fluxes to the right and downwards that p drives, t (p_before - p_after).
template <typename Team>
SLIFT_TEAM void add_fluxes(const Team& team, const TwoPointOperator& a, const double* p,
                           const Faces& flux) {
  const int nx = a.grid.nx, n = a.grid.cells();
  const Faces t = a.t;
  for_each(team, n + 1, [=](int i) { flux.west[i] += t.west[i] * (p[i - 1] - p[i]); });
  for_each(team, n + nx, [=](int i) { flux.north[i] += t.north[i] * (p[i - nx] - p[i]); });
}

// What flows into a cell less what flows out.
SLIFT_HD double net_inflow(Grid grid, const Faces& flux, int i) {
  return flux.west[i] - flux.west[i + 1] + flux.north[i] - flux.north[i + grid.nx];
}

}  // namespace slift::flow
