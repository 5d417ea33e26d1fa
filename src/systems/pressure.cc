#include "systems/pressure.h"

#include <Eigen/OrderingMethods>
#include <algorithm>

namespace slift::flow {

using Matrix = Eigen::SparseMatrix<double>;

PressurePattern::PressurePattern(Grid grid)
    : grid_(grid), position_(static_cast<std::size_t>(grid.cells())) {
  for (int i = 0; i < grid.cells(); ++i) position_[static_cast<std::size_t>(i)] = i;
  std::vector<double> ones(static_cast<std::size_t>(grid.cells() + grid.nx), 1.0);
  Matrix lower;
  assemble({grid, {ones.data(), ones.data()}}, lower);
  const Matrix whole = lower.selfadjointView<Eigen::Lower>();
  Eigen::PermutationMatrix<Eigen::Dynamic> order;  // position -> cell
  Eigen::AMDOrdering<int>()(whole, order);
  for (int i = 0; i < grid.cells(); ++i) {
    position_[static_cast<std::size_t>(order.indices()[i])] = i;
  }
}

void PressurePattern::assemble(const TwoPointOperator& a, Matrix& lower) const {
  const int nx = grid_.nx, n = grid_.cells();
  std::vector<Eigen::Triplet<double>> entries;
  entries.reserve(static_cast<std::size_t>(3 * n));
  const auto at = [&](int i) { return position_[static_cast<std::size_t>(i)]; };
  const auto connect = [&](int i, int j, double t) {
    entries.emplace_back(std::max(at(i), at(j)), std::min(at(i), at(j)), -t);
  };
  for (int i = 0; i < n; ++i) {
    entries.emplace_back(at(i), at(i), a.diagonal(i));
    if (i % nx > 0) connect(i, i - 1, a.t.west[i]);
    if (i >= nx) connect(i, i - nx, a.t.north[i]);
  }
  lower.resize(n, n);
  lower.setFromTriplets(entries.begin(), entries.end());
}

DirectPressure::DirectPressure(const PressurePattern& pattern) : pattern_(pattern) {
  const int n = pattern.grid().cells();
  residual_.resize(n);
  preconditioned_.resize(n);
  reordered_.resize(n);
  image_.resize(n);
  direction_.setZero(n + 2 * pattern.grid().nx);
}

int DirectPressure::solve(const TwoPointOperator& a, const double* rhs, double tolerance,
                          double* x) {
  if (last_iterations_ > kRefactorAfter) {
    pattern_.assemble(a, lower_);
    factors_.compute(lower_);
    if (factors_.info() != Eigen::Success) return -1;
  }
  const Eigen::Map<const Eigen::VectorXi> position(pattern_.position().data(),
                                                   pattern_.grid().cells());
  const CgArrays arrays = {residual_.data(), preconditioned_.data(),
                           direction_.data() + pattern_.grid().nx, image_.data()};
  last_iterations_ = conjugate_gradients(SerialTeam(), a, rhs, tolerance, x, arrays, [&] {
    reordered_(position) = residual_;
    reordered_ = factors_.solve(reordered_);
    preconditioned_ = reordered_(position);
  });
  return last_iterations_;
}

}  // namespace slift::flow
