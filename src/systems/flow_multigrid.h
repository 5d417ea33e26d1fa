// A multigrid cycle as preconditioner of the pressure equation, for permeabilities that vary by
// many orders of magnitude.
//
// Cells are joined 2 by 2 (the last of an odd row or column stay alone) down to a single one. The
// value of a block is spread evenly over its cells; residuals are added up. The conductance between
// two blocks is that of two paths in parallel, each the face between the blocks in series with half
// a face inside either block. So the coarse operator has the form of the fine one and, for uniform
// permeability, the right size; the plain sum of faces would be twice too stiff (Braess, "Towards
// algebraic multigrid for elliptic problems of second order", Computing 55, 1995).
// One cycle is a V with red-black Gauss-Seidel, 1, 2, 4, 4, ... sweeps on the way down and the same
// backwards on the way up: symmetric and positive definite whatever the coarse operators are.
//
// Measured on 100 x 100 cells and Matern fields of sigma 3, length 10, along 60 trajectories to a
// residual of 1e-10: 15 to 29 iterations of conjugate gradients, 18 in the median. Shorter lengths
// cost more: about 45 at length 3, 120 at length 1, and sigma 5 at length 1 fails.
#pragma once

#include "systems/flow_cg.h"

namespace slift::flow {

// Where the arrays of one pressure equation stand in its workspace, which must be zeroed once.
struct MultigridLayout {
  static constexpr int kMaxLevels = 16;  // up to 2^15 cells a side
  struct Level {
    Grid grid;
    int west, north;  // transmissibilities; on the finest level the caller's are used
    int inverse_diagonal, x, rhs;
  };

  MultigridLayout(Grid finest, WorkspacePlan& plan)
      : direction(plan.take_padded(finest)), image(plan.take(finest.cells())) {
    for (Grid g = finest;; g = {(g.nx + 1) / 2, (g.ny + 1) / 2}) {
      level[levels++] = {.grid = g,
                         .west = plan.take(g.cells() + 1),
                         .north = plan.take(g.cells() + g.nx),
                         .inverse_diagonal = plan.take(g.cells()),
                         .x = plan.take_padded(g),
                         .rhs = plan.take(g.cells())};
      if (g.cells() == 1) break;
    }
  }

  int levels = 0;
  Level level[kMaxLevels];
  int direction, image;  // of the conjugate gradients
};

template <typename Team>
class Multigrid {
 public:
  // Keeps references. `finest` is the matrix to solve with.
  SLIFT_TEAM Multigrid(const Team& team, const MultigridLayout& layout,
                       const TwoPointOperator& finest, double* workspace)
      : team_(team), layout_(layout), finest_(finest), workspace_(workspace) {}

  // Solves finest * x = rhs; as conjugate_gradients().
  SLIFT_TEAM int solve(const double* rhs, double tolerance, double* x) const {
    build();
    const Level top = level(0);
    const CgArrays arrays = {top.rhs, top.x, workspace_ + layout_.direction,
                             workspace_ + layout_.image};
    return conjugate_gradients(team_, finest_, rhs, tolerance, x, arrays, [this] { cycle(); });
  }

 private:
  struct Level {
    TwoPointOperator a;
    double *inverse_diagonal, *x, *rhs;
  };

  SLIFT_TEAM Level level(int l) const {
    const MultigridLayout::Level& at = layout_.level[l];
    const TwoPointOperator coarse = {
        at.grid, {workspace_ + at.west, workspace_ + at.north}, finest_.pin};
    return {l == 0 ? finest_ : coarse, workspace_ + at.inverse_diagonal, workspace_ + at.x,
            workspace_ + at.rhs};
  }

  // Coarse operators and diagonals.
  SLIFT_TEAM void build() const {
    for (int l = 0; l < layout_.levels; ++l) {
      if (l > 0) coarsen(level(l - 1).a, level(l).a);
      const Level at = level(l);
      for_each(team_, at.a.grid.cells(),
               [=](int i) { at.inverse_diagonal[i] = 1 / at.a.diagonal(i); });
    }
  }

  SLIFT_TEAM void coarsen(const TwoPointOperator& fine, const TwoPointOperator& coarse) const {
    const Grid g = fine.grid, c = coarse.grid;
    const auto path = [](double before, double between, double after) {
      return 1 / (0.5 / before + 1 / between + 0.5 / after);
    };
    const auto path_to_edge = [](double before, double between) {  // the last block is 1 cell wide
      return 1 / (0.5 / before + 1 / between);
    };
    for_each(team_, c.cells() + 1, [=](int block) {
      const int x = 2 * (block % c.nx), y = 2 * (block / c.nx);
      double sum = 0;
      for (int row = y; x > 0 && row < y + 2 && row < g.ny; ++row) {
        const double* t = fine.t.west + row * g.nx + x;
        sum += x + 1 < g.nx ? path(t[-1], t[0], t[1]) : path_to_edge(t[-1], t[0]);
      }
      coarse.t.west[block] = sum;
    });
    for_each(team_, c.cells() + c.nx, [=](int block) {
      const int x = 2 * (block % c.nx), y = 2 * (block / c.nx);
      double sum = 0;
      for (int column = x; y > 0 && y < g.ny && column < x + 2 && column < g.nx; ++column) {
        const double* t = fine.t.north + y * g.nx + column;
        sum += y + 1 < g.ny ? path(t[-g.nx], t[0], t[g.nx]) : path_to_edge(t[-g.nx], t[0]);
      }
      coarse.t.north[block] = sum;
    });
  }

  // x = B rhs on the finest level.
  SLIFT_TEAM void cycle() const {
    const int coarsest = layout_.levels - 1;
    for (int l = 0; l < coarsest; ++l) {
      const Level at = level(l);
      for_each(team_, at.a.grid.cells(), [=](int i) { at.x[i] = 0; });
      for (int sweep = 0; sweep < sweeps(l); ++sweep) {
        relax(at, 0);
        relax(at, 1);
      }
      restrict_residual(at, level(l + 1));
    }
    const Level last = level(coarsest);
    for_each(team_, 1, [=](int) { last.x[0] = last.inverse_diagonal[0] * last.rhs[0]; });
    for (int l = coarsest - 1; l >= 0; --l) {
      const Level at = level(l);
      add_coarse(at, level(l + 1));
      for (int sweep = 0; sweep < sweeps(l); ++sweep) {
        relax(at, 1);
        relax(at, 0);
      }
    }
  }

  SLIFT_TEAM static int sweeps(int l) { return l < 2 ? l + 1 : 4; }

  // Solves the equations of the cells with x + y + colour even, which do not touch each other. If
  // nx is even, the last cell of a row does read the first of the next, which may just be written:
  // with weight 0, and it is finite before and after.
  SLIFT_TEAM void relax(const Level& at, int colour) const {
    const int nx = at.a.grid.nx, half = (nx + 1) / 2;
    for_each(team_, half * at.a.grid.ny, [=](int k) {
      const int y = k / half, x = 2 * (k % half) + ((y + colour) & 1);
      if (x == nx) return;
      const int i = y * nx + x;
      at.x[i] += at.inverse_diagonal[i] * (at.rhs[i] - at.a.row(at.x, i));
    });
  }

  SLIFT_TEAM void restrict_residual(const Level& fine, const Level& coarse) const {
    const Grid g = fine.a.grid, c = coarse.a.grid;
    for_each(team_, c.cells(), [=](int block) {
      const int x = 2 * (block % c.nx), y = 2 * (block / c.nx);
      double sum = 0;
      for (int row = y; row < y + 2 && row < g.ny; ++row) {
        for (int column = x; column < x + 2 && column < g.nx; ++column) {
          const int i = row * g.nx + column;
          sum += fine.rhs[i] - fine.a.row(fine.x, i);
        }
      }
      coarse.rhs[block] = sum;
    });
  }

  SLIFT_TEAM void add_coarse(const Level& fine, const Level& coarse) const {
    const int nx = fine.a.grid.nx, coarse_nx = coarse.a.grid.nx;
    for_each(team_, fine.a.grid.cells(),
             [=](int i) { fine.x[i] += coarse.x[i / nx / 2 * coarse_nx + i % nx / 2]; });
  }

  const Team& team_;
  const MultigridLayout& layout_;
  const TwoPointOperator finest_;
  double* const workspace_;
};

}  // namespace slift::flow
