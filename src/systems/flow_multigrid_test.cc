#include "systems/flow_multigrid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "systems/flow_step.h"
#include "systems/flow_testing.h"

namespace slift::flow {
namespace {

// The largest difference of two solutions as fluxes, which is what is used of them.
double flux_difference(PressureProblem& one, PressureProblem& other) {
  const Grid grid = one.a.grid;
  double largest = 0;
  for (int i = 0; i < grid.cells(); ++i) {
    const auto drop = [&](PressureProblem& problem, int j) {
      return problem.p()[j] - problem.p()[i];
    };
    const double west = one.a.t.west[i] * (drop(one, i - 1) - drop(other, i - 1));
    const double north = one.a.t.north[i] * (drop(one, i - grid.nx) - drop(other, i - grid.nx));
    largest = std::max({largest, std::abs(west), std::abs(north)});
  }
  return largest;
}

TEST(Multigrid, EqualsTheDirectSolver) {
  for (const Grid grid :
       {Grid{2, 1}, Grid{1, 9}, Grid{5, 4}, Grid{17, 33}, Grid{37, 37}, Grid{64, 50}}) {
    SCOPED_TRACE(testing::Message() << grid.nx << " x " << grid.ny);
    for (std::uint64_t index = 0; index < 4; ++index) {
      const std::vector<double> k = random_conductivity(grid, index % 2 == 0 ? 2 : 10, index);
      PressureProblem direct(grid, k), multigrid(grid, k);
      EXPECT_GE(direct.solve_direct(), 0);
      EXPECT_GE(multigrid.solve_multigrid(), 0);
      EXPECT_LT(flux_difference(direct, multigrid), 1e-7);
    }
  }
}

TEST(Multigrid, TakesFewIterations) {
  constexpr int side = 100;
  const Grid grid = {side, side};
  for (std::uint64_t i = 0; i < 8; ++i) {
    PressureProblem problem(grid, random_conductivity(grid, 10, i));
    const int iterations = problem.solve_multigrid();
    EXPECT_GT(iterations, 10);
    EXPECT_LE(iterations, 28);
    EXPECT_LT(problem.residual(), problem.allowed_residual());
  }
  PressureProblem uniform(grid, std::vector<double>(side * side, 2.0));
  EXPECT_LE(uniform.solve_multigrid(), 15);
}

// Several threads that meet at a barrier, as those of a CUDA block do: shows that the solver waits
// where it must.
class ThreadTeam {
 public:
  static constexpr int kThreads = 2;
  struct Meeting {
    std::barrier<> barrier{kThreads};
    double slots[kThreads] = {};
  };

  ThreadTeam(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const { return rank_; }
  int size() const { return kThreads; }
  void sync() const { meeting_.barrier.arrive_and_wait(); }
  double sum(double x) const {
    return combine(x, [](double a, double b) { return a + b; });
  }
  double max(double x) const {
    return combine(x, [](double a, double b) { return std::max(a, b); });
  }

 private:
  template <typename Operation>
  double combine(double x, const Operation& operation) const {
    meeting_.slots[rank_] = x;
    sync();
    double all = meeting_.slots[0];
    for (int i = 1; i < kThreads; ++i) all = operation(all, meeting_.slots[i]);
    sync();
    return all;
  }

  Meeting& meeting_;
  int rank_;
};

// Saturations after an outer step with multigrid, as the CUDA kernel makes them.
template <typename Run>
std::vector<double> saturations(const Reservoir& reservoir, const std::vector<double>& permeability,
                                const Run& run) {
  WorkspacePlan plan;
  const StepLayout layout(reservoir.grid, plan);
  const MultigridLayout multigrid(reservoir.grid, plan);
  std::vector<double> workspace(static_cast<std::size_t>(plan.size()));
  run([&](const auto& team) {
    EXPECT_TRUE(advance(
        team, reservoir, layout, permeability.data(), workspace.data(),
        [&](const TwoPointOperator& a, const double* rhs, double tolerance, double* x) {
          return Multigrid(team, multigrid, a, workspace.data()).solve(rhs, tolerance, x) >= 0;
        }));
  });
  const auto begin = workspace.begin() + layout.saturation;
  return {begin, begin + reservoir.grid.cells()};
}

TEST(Multigrid, ThreadsOfATeamGiveWhatOneGives) {
  const Grid grid = {9, 6};
  const Reservoir reservoir = {.grid = grid,
                               .fluids = Fluids(1, 3, 0, 0),
                               .dt = 0.3,
                               .pore_volume = 1.0 / grid.cells(),
                               .rate = 1};
  const std::vector<double> permeability = random_conductivity(grid, 3, 7);
  const auto alone =
      saturations(reservoir, permeability, [](const auto& work) { work(SerialTeam()); });
  const auto together = saturations(reservoir, permeability, [](const auto& work) {
    ThreadTeam::Meeting meeting;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ThreadTeam::kThreads; ++rank) {
      threads.emplace_back([&, rank] { work(ThreadTeam(meeting, rank)); });
    }
  });
  EXPECT_GT(*std::max_element(alone.begin(), alone.end()), 0.5);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], together[i], 1e-7);
}

}  // namespace
}  // namespace slift::flow
