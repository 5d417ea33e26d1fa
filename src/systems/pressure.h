// The pressure equation by a sparse direct solver in double precision.
//
// A trajectory needs the pressure for ever new mobilities. The matrices of any two moments differ,
// as quadratic forms, by at most a factor max lambda / min lambda, whatever the permeabilities. So
// the factors of one step precondition conjugate gradients in the others at a rate that does not
// depend on K: for equal viscosities that factor is 2, and 13 iterations give a residual of 1e-10.
// New factors, which cost as much as 22 iterations (15 ms against 0.7 ms on 100 x 100 cells), are
// made when a solve took more than kRefactorAfter.
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
