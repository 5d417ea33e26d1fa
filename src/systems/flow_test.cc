#include "systems/flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/testing.h"
#include "systems/flow_multigrid.h"
#include "systems/pressure.h"

namespace slift {
namespace {

// A reservoir with a random medium, one step after another.
class Trial {
 public:
  Trial(int side, double dt, double sigma, double length, std::uint64_t index)
      : reservoir_{.grid = {side, side},
                   .fluids = flow::Fluids(1, 1, 0, 0),
                   .dt = dt,
                   .pore_volume = 1.0 / (side * side),
                   .rate = 1},
        layout_(reservoir_.grid, plan_),
        multigrid_(reservoir_.grid, plan_),
        pattern_(reservoir_.grid),
        direct_(pattern_),
        permeability_(static_cast<std::size_t>(side * side)),
        workspace_(static_cast<std::size_t>(plan_.size())) {
    std::vector<double> unused(permeability_.size());
    MaternField(side, sigma, length)
        .sample_pair({21, Purpose::kSystemNoise, index, 0}, unused, permeability_);
    for (double& k : permeability_) k = std::exp(k);
  }

  bool advance_with_direct_solver() {
    return advance([&](const flow::TwoPointOperator& a, const double* rhs, double tolerance,
                       double* x) { return direct_.solve(a, rhs, tolerance, x) >= 0; });
  }
  bool advance_with_multigrid() {
    return advance(
        [&](const flow::TwoPointOperator& a, const double* rhs, double tolerance, double* x) {
          return flow::Multigrid(flow::SerialTeam(), multigrid_, a, workspace_.data())
                     .solve(rhs, tolerance, x) >= 0;
        });
  }

  // The norm of what cells gain or lose by the fluxes of the last step.
  double imbalance() {
    double sum = 0;
    for (int i = 0; i < reservoir_.grid.cells(); ++i) {
      sum += std::pow(flow::net_inflow(reservoir_.grid, flux(), i), 2);
    }
    return std::sqrt(sum);
  }

  // Repeats the transport of the last step from `saturations`, the ones before it, one sub-step at
  // a time: the volume of water produced. Leaves the saturations after it.
  double produced(std::vector<double>& saturations) {
    const flow::Grid grid = reservoir_.grid;
    const auto pad = static_cast<std::size_t>(grid.nx);
    std::vector<double> s(saturations.size() + 2 * pad), f(s.size()), f_next(s.size());
    std::copy(saturations.begin(), saturations.end(), s.begin() + grid.nx);
    const int substeps = flow::count_substeps(flow::SerialTeam(), grid, flux(), reservoir_.fluids,
                                              reservoir_.dt, reservoir_.pore_volume);
    const double dt = reservoir_.dt / substeps;
    double volume = 0;
    for (int i = 0; i < substeps; ++i) {
      volume += dt * reservoir_.fluids.fractional_flow(s[s.size() - pad - 1]);
      flow::transport(flow::SerialTeam(), grid, flux(), reservoir_.fluids, dt,
                      reservoir_.pore_volume, 1, s.data() + pad, f.data() + pad,
                      f_next.data() + pad);
    }
    std::copy_n(s.begin() + grid.nx, grid.cells(), saturations.begin());
    return volume;
  }

  std::vector<double> saturations() const {
    const auto begin = workspace_.begin() + layout_.saturation;
    return {begin, begin + reservoir_.grid.cells()};
  }
  double stored() const {
    const auto s = saturations();
    return reservoir_.pore_volume * std::accumulate(s.begin(), s.end(), 0.0);
  }

 private:
  flow::Faces flux() {
    return {workspace_.data() + layout_.flux_west, workspace_.data() + layout_.flux_north};
  }
  template <typename Solve>
  bool advance(const Solve& solve) {
    return flow::advance(flow::SerialTeam(), reservoir_, layout_, permeability_.data(),
                         workspace_.data(), solve);
  }

  flow::Reservoir reservoir_;
  flow::WorkspacePlan plan_;
  flow::StepLayout layout_;
  flow::MultigridLayout multigrid_;
  flow::PressurePattern pattern_;
  flow::DirectPressure direct_;
  std::vector<double> permeability_, workspace_;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Injected = stored + produced, and saturations between 0 and 1, after every step.
void expect_balance(Trial& trial, int steps, double dt) {
  double produced = 0;
  std::vector<double> replay = trial.saturations();
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(trial.advance_with_direct_solver());
    produced += trial.produced(replay);
    const std::vector<double> s = trial.saturations();
    ASSERT_LT(largest_difference(s, replay), 1e-10);
    ASSERT_NEAR(trial.stored() + produced, step * dt, 1e-9) << step;
    const auto [low, high] = std::minmax_element(s.begin(), s.end());
    ASSERT_GE(*low, -1e-12);
    ASSERT_LE(*high, 1 + 1e-12);
  }
  EXPECT_GT(produced, 0);
}

TEST(Flow, WaterIsConserved) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    Trial trial(30, 0.02, 3, 6, i);
    expect_balance(trial, 35, 0.02);
  }
  Trial large(100, 0.07, 3, 10, 20);
  expect_balance(large, 10, 0.07);
}

TEST(Flow, MultigridGivesTheSameTrajectories) {
  for (const auto& [side, steps] : {std::pair{33, 20}, {100, 6}}) {
    const double dt = 1.4 / (side * side) * 50;
    Trial direct(side, dt, 3, 8, 1), multigrid(side, dt, 3, 8, 1);
    for (int step = 0; step < steps; ++step) {
      ASSERT_TRUE(direct.advance_with_direct_solver());
      ASSERT_TRUE(multigrid.advance_with_multigrid());
    }
    EXPECT_LT(largest_difference(direct.saturations(), multigrid.saturations()), 1e-6) << side;
  }
}

TEST(Flow, FluxesBalanceWhateverThePermeabilities) {
  // At sigma = 4.5 the fluxes of the pressure alone are out of balance by 1e-6 and more.
  for (std::uint64_t i = 0; i < 5; ++i) {
    Trial trial(40, 0.01, 4.5, 10, i);
    ASSERT_TRUE(trial.advance_with_direct_solver());
    EXPECT_LE(trial.imbalance(), flow::kImbalance);
    ASSERT_TRUE(trial.advance_with_multigrid());
    EXPECT_LE(trial.imbalance(), flow::kImbalance);
  }
}

struct Result {
  std::vector<float> states, media;
};

Result simulate(Flow& system, std::int64_t members, std::uint64_t seed = 5) {
  const TrajectoryInfo info = system.describe();
  Result result;
  result.states.resize(static_cast<std::size_t>(members * info.trajectory_size()));
  result.media.resize(static_cast<std::size_t>(members * info.media_size()));
  system.simulate({seed, 0, members, result.states, result.media});
  return result;
}

Flow small_flow() {
  Flow system;
  system.grid = 20, system.crop = 0, system.dt = 0.01, system.store_every = 3, system.stored = 8;
  system.length = 5;
  return system;
}

TEST(Flow, UntilWaterArrivesAllOfItIsInTheGround) {
  Flow system = small_flow();
  system.s_wc = 0.1;
  const TrajectoryInfo info = system.describe();
  const std::vector<float> states = simulate(system, 10).states;
  int checked = 0;
  for (std::int64_t m = 0; m < 10; ++m) {
    for (std::int64_t t = 0; t < info.steps; ++t) {
      const float* s = states.data() + (m * info.steps + t) * 400;
      const double mean = std::accumulate(s, s + 400, 0.0) / 400 - 0.1;
      const double injected = static_cast<double>(t) * info.dt;
      EXPECT_LT(mean, injected + 1e-6);
      if (s[399] > 0.1f) continue;
      EXPECT_NEAR(mean, injected, 1e-6) << m << ", " << t;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(Flow, UniformReservoirIsSymmetricAndWaterComesFromTheUpperLeft) {
  Flow system = small_flow();
  system.sigma = 0;
  const std::vector<float> states = simulate(system, 1).states;
  const float* last = states.data() + 7 * 400;
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < y; ++x) EXPECT_NEAR(last[y * 20 + x], last[x * 20 + y], 1e-6);
  }
  EXPECT_GT(last[0], 0.9f);
  EXPECT_LT(last[399], 0.1f);
  EXPECT_NEAR(last[19], last[380], 1e-6);
}

TEST(Flow, CropDropsTheFirstRowsAndColumns) {
  Flow whole = small_flow(), cropped = small_flow();
  cropped.crop = 3;
  const Result a = simulate(whole, 2), b = simulate(cropped, 2);
  for (std::size_t frame = 0; frame < 16; ++frame) {
    for (std::size_t y = 0; y < 17; ++y) {
      for (std::size_t x = 0; x < 17; ++x) {
        ASSERT_EQ(b.states[(frame * 17 + y) * 17 + x], a.states[(frame * 20 + y + 3) * 20 + x + 3]);
      }
    }
  }
  ASSERT_EQ(b.media.size(), 2u * 17 * 17);
  EXPECT_EQ(b.media[17 * 17 + 16], a.media[400 + 3 * 20 + 19]);
}

TEST(Flow, LogPermeabilityIsYPlusEpsZ) {
  // Of trajectory i, from the stream of i alone; and Z only as much as eps says.
  Flow system = small_flow();
  system.stored = 2, system.store_every = 1;
  for (const double eps : {0.0, 0.01, 0.5}) {
    system.eps = eps;
    const std::vector<float> media = simulate(system, 3).media;
    const MaternField field(20, 3, 5);
    std::vector<double> z(400), y(400);
    for (std::uint64_t i = 0; i < 3; ++i) {
      field.sample_pair({5, Purpose::kSystemNoise, i, 0}, z, y);
      for (std::size_t c = 0; c < 400; ++c) {
        ASSERT_EQ(media[i * 400 + c], static_cast<float>(y[c] + eps * z[c]));
      }
    }
  }
}

TEST(Flow, WaterAvoidsTheTightSide) {
  // The more permeable of the two ways around the diagonal takes more of the water.
  Flow system = small_flow();
  system.length = 15;
  const Result r = simulate(system, 40);
  double agreement = 0;
  for (std::size_t m = 0; m < 40; ++m) {
    double water = 0, permeability = 0;
    for (std::size_t y = 0; y < 20; ++y) {
      for (std::size_t x = 0; x < 20; ++x) {
        const double side = x < y ? -1 : x > y ? 1 : 0;
        water += side * r.states[(m * 8 + 7) * 400 + y * 20 + x];
        permeability += side * r.media[m * 400 + y * 20 + x];
      }
    }
    agreement += water * permeability > 0 ? 1 : 0;
  }
  EXPECT_GT(agreement, 34);  // 20 +- 3.2 if they had nothing to do with each other
}

TEST(Flow, DefaultsAreThePapers) {
  const Flow system;
  const TrajectoryInfo info = system.describe();
  EXPECT_EQ(info.steps, 50);
  EXPECT_DOUBLE_EQ(info.dt, 0.014);
  EXPECT_EQ(info.state_shape, (std::vector<std::int64_t>{1, 96, 96}));
  EXPECT_EQ(info.media_shape, (std::vector<std::int64_t>{1, 96, 96}));
  EXPECT_EQ(info.fields, std::vector<std::string>{"saturation"});
  EXPECT_EQ(info.media_fields, std::vector<std::string>{"log_permeability"});
  EXPECT_EQ(info.boundary, "none");
  EXPECT_EQ(system.dt, 0.007);
  EXPECT_EQ(system.sigma, 3);
  EXPECT_EQ(system.length, 10);
  EXPECT_EQ(system.eps, 0.01);
}

TEST(Flow, BadParametersAreNamed) {
  for (const char* setting :
       {"grid=0", "grid=1", "crop=-1", "dt=0", "store_every=0", "stored=1", "mu_w=-1", "mu_o=0",
        "s_wc=-0.1", "s_or=-0.1", "sigma=-3", "sigma=9", "length=0", "length=999", "eps=-1"}) {
    Flow system;
    const std::string key(setting, std::find(setting, setting + 12, '='));
    const std::string message = error_of([&] { system.schema().apply_setting(setting); });
    EXPECT_NE(message.find(key), std::string::npos) << setting << ": " << message;
  }
  const auto message_after = [](const std::string& setting) {
    Flow system;
    system.schema().apply_setting(setting);
    return error_of([&] { system.describe(); });
  };
  EXPECT_EQ(message_after("crop=100"), "flow: crop 100 must be less than grid 100");
  EXPECT_EQ(message_after("s_wc=1"), "flow: s_wc + s_or must be less than 1, and is 1");
  EXPECT_EQ(message_after("dt=10"),
            "flow: dt 10 takes 200000 stable transport steps; at most 1e5 are allowed");
  EXPECT_EQ(message_after("crop=99"), "");
}

}  // namespace
}  // namespace slift
