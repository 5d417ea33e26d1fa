// The flow solver (systems/flow_team.h) by a block of threads, against the same by one.
#include <cmath>

#include "emulator.h"
#include "systems/flow_multigrid.h"
#include "systems/flow_step.h"
#include "testing.h"

namespace slift::flow {
namespace {

constexpr int kTeamThreads = 64;

// As that of systems/cuda/flow.cu, in a simpler way.
class EmulatedTeam {
 public:
  explicit EmulatedTeam(double (&slots)[kTeamThreads]) : slots_(slots) {}
  int rank() const { return static_cast<int>(emulated::place().thread.x); }
  int size() const { return kTeamThreads; }
  void sync() const { emulated::meet_block(); }
  double sum(double x) const {
    return combine(x, [](double a, double b) { return a + b; });
  }
  double max(double x) const {
    return combine(x, [](double a, double b) { return a > b ? a : b; });
  }

 private:
  template <typename Operation>
  double combine(double x, const Operation& operation) const {
    slots_[rank()] = x;
    sync();
    double all = slots_[0];
    for (int i = 1; i < kTeamThreads; ++i) all = operation(all, slots_[i]);
    sync();
    return all;
  }

  double (&slots_)[kTeamThreads];
};

// A trajectory of a small reservoir.
struct SmallReservoir {
  SmallReservoir() {
    for (const float x : drawn(kCells.cells(), 0)) permeability.push_back(std::exp(2 * x));
    workspace.resize(static_cast<std::size_t>(plan.size()));
  }
  double saturation(int cell) const {
    return workspace[static_cast<std::size_t>(step.saturation + cell)];
  }

  // By all threads of the team.
  template <typename Team>
  bool advance_by(const Team& team) {
    const auto solve = [&](const TwoPointOperator& a, const double* rhs, double tolerance,
                           double* x) {
      return Multigrid(team, multigrid, a, workspace.data()).solve(rhs, tolerance, x) >= 0;
    };
    return advance(team, reservoir, step, permeability.data(), workspace.data(), solve);
  }

  // Of which no level has several rows of an even number of cells: Multigrid::relax() then reads
  // what others write, though it does not use it.
  static constexpr Grid kCells = {17, 4};
  Reservoir reservoir = {
      .grid = kCells, .fluids = Fluids(1, 3, 0, 0), .dt = 0.02, .pore_volume = 0.01, .rate = 1};
  WorkspacePlan plan;
  StepLayout step{kCells, plan};
  MultigridLayout multigrid{kCells, plan};
  std::vector<double> permeability, workspace;
};

TEST(EmulatedFlow, ABlockAdvancesAsOneThreadDoes) {
  SmallReservoir alone, together;
  double slots[kTeamThreads];
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(alone.advance_by(SerialTeam()));
    bool done = false;
    emulated::run({{}, {kTeamThreads, 1, 1}}, [&] {
      const EmulatedTeam team(slots);
      const bool own = together.advance_by(team);
      if (team.rank() == 0) done = own;
    });
    ASSERT_TRUE(done);
    double largest = 0;
    for (int i = 0; i < SmallReservoir::kCells.cells(); ++i) {
      EXPECT_NEAR(together.saturation(i), alone.saturation(i), 1e-6) << i;
      largest = std::max(largest, alone.saturation(i));
    }
    EXPECT_GT(largest, 0.5);
  }
}

}  // namespace
}  // namespace slift::flow
