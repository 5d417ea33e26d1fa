// The pressure of one reservoir after another by a sparse direct solver in double precision.
//
// A trajectory needs the pressure for ever new mobilities, but the matrix with those of one moment
// is within lambda_min/lambda_max and its inverse of that of any other, whatever the
// permeabilities. So the factorisation of one step preconditions conjugate gradients in the others,
// at a rate that does not depend on K: for equal viscosities the ratio is 2 and about 12 iterations
// give 1e-10. A new factorisation costs as much as 22 iterations and is made when a solve took more
// than kRefactorAfter. On 100 x 100 cells: MEASURED
#pragma once

#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#include <vector>

#include "systems/flow_cg.h"

namespace slift::flow {

// The sparse matrix of a grid, reordered once (approximate minimum degree) for little fill; all
// solvers on that grid share it.
class PressurePattern {
 public:
  explicit PressurePattern(Grid grid);

  Grid grid() const { return grid_; }
  const std::vector<int>& position() const { return position_; }

  // The lower triangle of `a`, reordered: row and column position()[i] belong to cell i. The
  // pattern is always the same.
  void assemble(const TwoPointOperator& a, Eigen::SparseMatrix<double>& lower) const;

 private:
  Grid grid_;
  std::vector<int> position_;
};

// Solves along one trajectory. What it returns depends on the solves before it, so each trajectory
// takes a new one.
class DirectPressure {
 public:
  explicit DirectPressure(const PressurePattern& pattern);  // which must outlive this

  // Solves a x = rhs; as conjugate_gradients(), with -1 also if `a` cannot be factorised. x with
  // room for the reads around it.
  int solve(const TwoPointOperator& a, const double* rhs, double tolerance, double* x);

 private:
  static constexpr int kRefactorAfter = 20;

  const PressurePattern& pattern_;
  Eigen::SparseMatrix<double> lower_;
  Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>, Eigen::Lower, Eigen::NaturalOrdering<int>>
      factors_;
  Eigen::VectorXd residual_, preconditioned_, direction_, image_, reordered_;
  int last_iterations_ = kRefactorAfter + 1;
};

}  // namespace slift::flow
