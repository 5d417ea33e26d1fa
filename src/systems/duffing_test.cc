#include "systems/duffing.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/errors.h"

namespace slift {
namespace {

// Mean and covariance of a state (x1, x2).
struct Moments {
  double mean[2] = {}, xx = 0, xv = 0, vv = 0;
};

Moments sample_moments(const std::vector<float>& states, const TrajectoryInfo& info,
                       std::int64_t members, std::int64_t step) {
  Moments m;
  const auto at = [&](std::int64_t i, std::int64_t c) {
    return static_cast<double>(states[static_cast<std::size_t>((i * info.steps + step) * 2 + c)]);
  };
  const auto n = static_cast<double>(members);
  for (std::int64_t i = 0; i < members; ++i) {
    m.mean[0] += at(i, 0) / n;
    m.mean[1] += at(i, 1) / n;
  }
  for (std::int64_t i = 0; i < members; ++i) {
    const double x = at(i, 0) - m.mean[0], v = at(i, 1) - m.mean[1];
    m.xx += x * x / n, m.xv += x * v / n, m.vv += v * v / n;
  }
  return m;
}

// Four standard errors: of a mean sqrt(P_ii / n), of a covariance of normals
// sqrt((P_ii P_jj + P_ij^2) / n).
void expect_moments(const Moments& got, const Moments& exact, std::int64_t members) {
  const auto n = static_cast<double>(members);
  EXPECT_NEAR(got.mean[0], exact.mean[0], 4 * std::sqrt(exact.xx / n));
  EXPECT_NEAR(got.mean[1], exact.mean[1], 4 * std::sqrt(exact.vv / n));
  EXPECT_NEAR(got.xx, exact.xx, 4 * std::sqrt(2 / n) * exact.xx);
  EXPECT_NEAR(got.vv, exact.vv, 4 * std::sqrt(2 / n) * exact.vv);
  EXPECT_NEAR(got.xv, exact.xv, 4 * std::sqrt((exact.xx * exact.vv + exact.xv * exact.xv) / n));
}

std::vector<float> simulate(Duffing& system, std::int64_t members) {
  std::vector<float> states(
      static_cast<std::size_t>(members * system.describe().trajectory_size()));
  system.simulate({4, 0, members, states, {}});
  return states;
}

TEST(Duffing, LinearSystemHasTheMomentsOfItsRecursion) {
  // Without the cubic term a step of Euler-Maruyama is y -> A y + (0, noise sqrt(dt) z) with
  // A = [[1, dt], [dt, 1 - damping dt]], so mean -> A mean and P -> A P A^T + diag(0, noise^2 dt),
  // exactly: no discretisation error enters.
  Duffing system;
  system.stiffness = 0, system.damping = 0.6, system.noise = 1.5, system.initial_variance = 0.3;
  system.inner_dt = 0.01, system.end = 2, system.stored = 3;
  constexpr std::int64_t members = 40000;
  const std::vector<float> states = simulate(system, members);
  const TrajectoryInfo info = system.describe();
  Moments exact;
  exact.mean[1] = 10, exact.xx = exact.vv = 0.3;
  const double h = 0.01, a = 1 - 0.6 * h;
  for (std::int64_t step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    expect_moments(sample_moments(states, info, members, step), exact, members);
    for (int inner = 0; inner < 100; ++inner) {
      const Moments p = exact;
      exact.mean[0] = p.mean[0] + h * p.mean[1];
      exact.mean[1] = h * p.mean[0] + a * p.mean[1];
      exact.xx = p.xx + 2 * h * p.xv + h * h * p.vv;
      exact.xv = h * p.xx + (a + h * h) * p.xv + h * a * p.vv;
      exact.vv = h * h * p.xx + 2 * h * a * p.xv + a * a * p.vv + 1.5 * 1.5 * h;
    }
  }
}

TEST(Duffing, InitialStatesAreNormal) {
  Duffing system;
  system.end = 0.2, system.stored = 2;
  constexpr std::int64_t members = 40000;
  const std::vector<float> states = simulate(system, members);
  Moments exact;
  exact.mean[1] = 10, exact.xx = exact.vv = 0.5;  // 0.5 is the variance
  expect_moments(sample_moments(states, system.describe(), members, 0), exact, members);
}

// The noiseless equation by the classical Runge-Kutta method, with a step so small that its error,
// of fourth order, does not show.
std::array<double, 2> runge_kutta(const Duffing& s) {
  using State = std::array<double, 2>;
  const auto slope = [&](const State& y) {
    return State{y[1], -s.damping * y[1] + y[0] - s.stiffness * y[0] * y[0] * y[0]};
  };
  const auto ahead = [](const State& y, double h, const State& k) {
    return State{y[0] + h * k[0], y[1] + h * k[1]};
  };
  constexpr int steps = 20000;
  const double h = s.end / steps;
  State y = {0, 10};
  for (int i = 0; i < steps; ++i) {
    const State k1 = slope(y), k2 = slope(ahead(y, h / 2, k1)), k3 = slope(ahead(y, h / 2, k2)),
                k4 = slope(ahead(y, h, k3));
    for (std::size_t c = 0; c < 2; ++c) y[c] += h / 6 * (k1[c] + 2 * k2[c] + 2 * k3[c] + k4[c]);
  }
  return y;
}

TEST(Duffing, ConvergesAtFirstOrderWithoutNoise) {
  Duffing system;
  system.noise = 0, system.initial_variance = 0, system.end = 2, system.stored = 11;
  const auto exact = runge_kutta(system);
  double before = 0;
  for (const double inner_dt : {4e-3, 2e-3, 1e-3, 5e-4}) {
    system.inner_dt = inner_dt;
    const std::vector<float> states = simulate(system, 1);
    ASSERT_EQ(states[0], 0.0f);
    ASSERT_EQ(states[1], 10.0f);
    const double error = std::hypot(states[20] - exact[0], states[21] - exact[1]);
    if (before > 0) {
      EXPECT_GT(before / error, 1.8) << inner_dt;
      EXPECT_LT(before / error, 2.2) << inner_dt;
    }
    before = error;
  }
  EXPECT_LT(before, 0.05);
}

TEST(Duffing, WellsAttract) {
  // Without noise every trajectory comes to rest at +-1/sqrt(stiffness): damping 0.4 shrinks the
  // oscillation by exp(-0.2 * 100).
  Duffing system;
  system.noise = 0, system.end = 100, system.stored = 2, system.inner_dt = 0.01;
  const std::vector<float> states = simulate(system, 20);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(std::abs(states[4 * i + 2]), std::sqrt(5.0), 1e-5);
    EXPECT_NEAR(states[4 * i + 3], 0, 1e-5);
  }
}

TEST(Duffing, DefaultsAreThePapers) {
  const TrajectoryInfo info = Duffing().describe();
  EXPECT_EQ(info.steps, 71);
  EXPECT_DOUBLE_EQ(info.dt, 0.2);
  EXPECT_EQ(info.state_shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(info.fields, (std::vector<std::string>{"x1", "x2"}));
  EXPECT_EQ(Duffing().inner_dt, 2e-3);
}

TEST(Duffing, StoredStepMustBeAMultipleOfTheInnerOne) {
  Duffing system;
  std::vector<float> one(2 * 71);
  for (const double inner_dt : {0.003, 0.15, 0.4, 1.0}) {
    system.inner_dt = inner_dt;
    EXPECT_THROW(system.describe(), UserError) << inner_dt;
    EXPECT_THROW(system.simulate({0, 0, 1, one, {}}), UserError) << inner_dt;
  }
  try {
    system.describe();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("inner_dt 1"), std::string::npos) << error.what();
  }
  for (const double inner_dt : {0.2, 0.1, 1e-4}) {
    system.inner_dt = inner_dt;
    EXPECT_NO_THROW(system.describe()) << inner_dt;
  }
  for (const char* setting : {"inner_dt=0", "end=-1", "stored=1", "noise=-0.1", "stiffness=-1"}) {
    EXPECT_THROW(system.schema().apply_setting(setting), UserError) << setting;
  }
}

}  // namespace
}  // namespace slift
