#include "systems/pressure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "systems/flow_testing.h"

namespace slift::flow {
namespace {

enum class Solver { kDirect, kMultigrid };

// The largest error for -div(K grad p) = q on [0, 1] x [0, 2] with K = exp(x + y/2) and
// p = cos(pi x) cos(pi y), which has no flow through the edges, on n x 2n cells.
double manufactured_error(int n, Solver solver) {
  constexpr double pi = std::numbers::pi;
  const Grid grid = {n, 2 * n};
  const double h = 1.0 / n;
  std::vector<double> k, q, exact;
  for (int j = 0; j < 2 * n; ++j) {
    for (int i = 0; i < n; ++i) {
      const double x = (i + 0.5) * h, y = (j + 0.5) * h;
      k.push_back(std::exp(x + y / 2));
      exact.push_back(std::cos(pi * x) * std::cos(pi * y));
      const double px = -pi * std::sin(pi * x) * std::cos(pi * y);
      const double py = -pi * std::cos(pi * x) * std::sin(pi * y);
      q.push_back(-k.back() * (px + py / 2 - 2 * pi * pi * exact.back()) * h * h);
    }
  }
  PressureProblem problem(grid, k);
  // The midpoint rule makes the sources add up to 0 only nearly.
  const double excess = std::accumulate(q.begin(), q.end(), 0.0) / grid.cells();
  for (double& value : q) value -= excess;
  problem.source = q;
  EXPECT_GE(solver == Solver::kDirect ? problem.solve_direct() : problem.solve_multigrid(), 0);
  double low = 1e9, high = -1e9;  // p is defined up to a constant
  for (int i = 0; i < grid.cells(); ++i) {
    const double difference = problem.p()[i] - exact[static_cast<std::size_t>(i)];
    low = std::min(low, difference), high = std::max(high, difference);
  }
  return (high - low) / 2;
}

TEST(Pressure, ConvergesAtSecondOrder) {
  for (const Solver solver : {Solver::kDirect, Solver::kMultigrid}) {
    double before = 0;
    for (const int n : {10, 20, 40, 80}) {
      const double error = manufactured_error(n, solver);
      if (before > 0) {
        EXPECT_GT(std::log2(before / error), 1.9) << n;
        EXPECT_LT(std::log2(before / error), 2.1) << n;
      }
      before = error;
    }
    EXPECT_LT(before, 1e-3);
  }
}

TEST(Pressure, TwoCellsByHand) {
  // Conductivities 1 and 3 in a row: the face has 2 * 1 * 3 / 4 = 1.5, so flow 1 drops p by 2/3.
  PressureProblem row({2, 1}, {1, 3}), column({1, 2}, {1, 3});
  for (PressureProblem* problem : {&row, &column}) {
    EXPECT_GE(problem->solve_direct(), 0);
    EXPECT_NEAR(problem->p()[0], 0, 1e-14);
    EXPECT_NEAR(problem->p()[1], -2.0 / 3, 1e-14);
    std::vector<double> west(3), north(4);
    add_fluxes(SerialTeam(), problem->a, problem->p(), {west.data(), north.data()});
    const bool is_row = problem == &row;
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(west[static_cast<std::size_t>(i)], is_row && i == 1 ? 1 : 0, 1e-14);
      EXPECT_NEAR(north[static_cast<std::size_t>(i)], !is_row && i == 1 ? 1 : 0, 1e-14);
    }
  }
}

TEST(Pressure, RandomPermeabilitiesAreSolved) {
  for (const Grid grid : {Grid{40, 40}, Grid{33, 17}, Grid{1, 50}}) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      PressureProblem problem(grid, random_conductivity(grid, 4, seed));
      EXPECT_GE(problem.solve_direct(), 0);
      EXPECT_LT(problem.residual(), problem.allowed_residual());
      EXPECT_NEAR(problem.a.pin * problem.p()[0], 0, problem.allowed_residual());
    }
  }
}

TEST(Pressure, ChangedMobilitiesReuseTheFactors) {
  const Grid grid = {30, 20};
  const PressurePattern pattern(grid);
  DirectPressure solver(pattern);
  const std::vector<double> k = random_conductivity(grid, 4, 1);
  const auto solve = [&](double least) {  // mobilities from `least` to 1, from cell to cell
    std::vector<double> changed = k;
    for (std::size_t i = 0; i < k.size(); ++i) {
      changed[i] *= std::pow(least, static_cast<double>(i * 7 % 11) / 10);
    }
    PressureProblem problem(grid, changed);
    const int iterations =
        solver.solve(problem.a, problem.source.data(), problem.kTolerance, problem.p());
    EXPECT_LT(problem.residual(), problem.allowed_residual());
    return iterations;
  };
  EXPECT_LE(solve(1), 2);  // its own factors
  // Conjugate gradients at condition number 2 gain a factor (sqrt 2 + 1) / (sqrt 2 - 1) = 5.8 an
  // iteration.
  EXPECT_GT(solve(0.5), 4);
  EXPECT_LE(solve(0.5), 20);
  EXPECT_GT(solve(0.01), 20);
  EXPECT_LE(solve(0.01), 2);  // too many before, so there are new factors
}

TEST(Pressure, WhatCannotBeSolvedIsReported) {
  const Grid grid = {8, 8};
  std::vector<double> k = random_conductivity(grid, 4, 2);
  k[20] = NAN;
  PressureProblem problem(grid, k);
  EXPECT_EQ(problem.solve_direct(), -1);
  EXPECT_EQ(problem.solve_multigrid(), -1);
}

TEST(Pressure, OrderingKeepsTheFactorsSparse) {
  // Row by row, the factor of n x n cells has n^3 entries; a good order needs about
  // 31/4 n^2 log2 n^2 at most (George, SIAM J. Numer. Anal. 10, 1973).
  const Grid grid = {64, 64};
  const PressurePattern pattern(grid);
  std::vector<int> sorted = pattern.position();
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < grid.cells(); ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
  PressureProblem problem(grid, random_conductivity(grid, 4, 3));
  Eigen::SparseMatrix<double> lower;
  pattern.assemble(problem.a, lower);
  const Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>, Eigen::Lower,
                              Eigen::NaturalOrdering<int>>
      factors(lower);
  EXPECT_LT(factors.matrixL().nestedExpression().nonZeros(), 64 * 64 * 64 / 2);
}

}  // namespace
}  // namespace slift::flow
