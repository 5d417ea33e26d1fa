#include "systems/wave_solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "systems/speed_field.h"

namespace slift {
namespace {

// cos(kx x + ky y + 0.3) on n x n points.
std::vector<float> wave(std::int64_t n, std::int64_t kx, std::int64_t ky) {
  std::vector<float> u;
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      const auto phase = 2 * std::numbers::pi * static_cast<double>(kx * column + ky * row);
      u.push_back(static_cast<float>(std::cos(phase / static_cast<double>(n) + 0.3)));
    }
  }
  return u;
}

std::vector<float> constant(std::int64_t n, float value) {
  return std::vector<float>(static_cast<std::size_t>(n * n), value);
}

TEST(WaveSolver, LaplacianOfAWaveIsMinusKSquared) {
  for (const std::int64_t n : {15, 16, 20}) {
    const WaveSolver solver(n, 0.01);
    for (const auto& [kx, ky] : {std::pair{0, 0}, {1, 0}, {0, 1}, {2, 5}, {3, -4}, {6, -6}}) {
      WaveState state = solver.start(constant(n, 1), wave(n, kx, ky));
      solver.apply_laplacian(state);
      for (std::size_t i = 0; i < state.u.size(); ++i) {
        // Rounding of u, amplified by at most the largest k^2.
        ASSERT_NEAR(state.laplacian[i], -static_cast<float>(kx * kx + ky * ky) * state.u[i],
                    static_cast<double>(n * n) / 2 * 5e-7)
            << n << " " << kx << " " << ky;
      }
    }
  }
}

// The factor by which a wave (3, -2) under constant speed 0.8 has changed, of exact value
// cos(0.8 sqrt(13) t).
double wave_after(double dt, std::int64_t steps) {
  constexpr std::int64_t n = 24;
  const WaveSolver solver(n, dt);
  const std::vector<float> start = wave(n, 3, -2);
  WaveState state = solver.start(constant(n, 0.8f), start);
  for (std::int64_t i = 0; i < steps; ++i) solver.step(state);
  double product = 0, square = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    product += static_cast<double>(state.u[i]) * start[i];
    square += static_cast<double>(start[i]) * start[i];
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_NEAR(state.u[i], product / square * start[i], 1e-5);
  }
  return product / square;
}

const double kFrequency = 0.8 * std::sqrt(13.0);

TEST(WaveSolver, SecondOrderInTime) {
  constexpr double end = 3;
  const double exact = std::cos(kFrequency * end);
  double before = 0;
  for (const std::int64_t steps : {60, 120, 240}) {
    const double error = wave_after(end / static_cast<double>(steps), steps) - exact;
    if (before != 0) {
      EXPECT_GT(std::log2(before / error), 1.9) << steps;
      EXPECT_LT(std::log2(before / error), 2.1) << steps;
    }
    before = error;
  }
  EXPECT_LT(std::abs(before), 1e-3);
}

TEST(WaveSolver, SteppedFrequencyIsExact) {
  // Leapfrog turns a wave by the angle a with sin(a/2) = frequency dt / 2 at every step: only
  // rounding is left, about the root of the number of steps.
  constexpr double dt = 0.01;
  const double angle = 2 * std::asin(kFrequency * dt / 2);
  for (const std::int64_t steps : {1, 2, 50, 2000}) {
    const auto count = static_cast<double>(steps);
    EXPECT_NEAR(wave_after(dt, steps), std::cos(angle * count), 5e-7 * std::sqrt(count)) << steps;
  }
}

TEST(WaveSolver, ConservesEnergy) {
  // The paper's run. E as in the header, at every 50th half step.
  constexpr std::int64_t n = 256, steps = 2000;
  constexpr double dt = 4e-3;
  const WaveSolver solver(n, dt);
  std::vector<float> start;
  for (std::int64_t i = 0; i < n * n; ++i) {
    const double x = static_cast<double>(i % n) / n - 0.5, y = static_cast<double>(i / n) / n - 0.5;
    const double radius = 2 * std::numbers::pi * std::hypot(x, y);
    start.push_back(static_cast<float>(std::exp(-30 * radius * radius)));
  }
  WaveState state = solver.start(SpeedField(n, 1, 0.25).sample(1, 0), start);
  double low = INFINITY, high = 0;
  while (state.steps < steps) {
    const auto before = state.u;
    solver.step(state);
    if (state.steps % 50 != 1 && state.steps != steps) continue;
    solver.apply_laplacian(state);
    double energy = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double scaled = state.speed[i] > 0 ? state.velocity[i] / state.speed[i] : 0;
      energy += (scaled * scaled - static_cast<double>(before[i]) * state.laplacian[i]) / 2;
    }
    low = std::min(low, energy), high = std::max(high, energy);
  }
  EXPECT_GT(low, 0);
  EXPECT_LT((high - low) / low, 1e-5);
}

TEST(WaveSolver, LargestStableStepIsSharp) {
  for (const std::int64_t n : {8, 9}) {
    const std::int64_t k = n / 2;
    for (const bool stable : {true, false}) {
      const WaveSolver solver(n, WaveSolver::largest_stable_step(n) * (stable ? 0.99 : 1.01));
      WaveState state = solver.start(constant(n, 1), wave(n, k, k));
      for (int i = 0; i < 100; ++i) solver.step(state);
      float largest = 0;
      for (const float u : state.u) largest = std::max(largest, std::abs(u));
      // Unstable, the wave grows by the factor exp(2 acosh(1.01)) = 1.33 a step.
      if (stable) {
        EXPECT_LT(largest, 1.01f) << n;
      } else {
        EXPECT_GT(largest, 1e10f) << n;
      }
    }
  }
}

TEST(WaveSolver, NothingMovesWhereTheSpeedIsZero) {
  constexpr std::int64_t n = 16;
  const WaveSolver solver(n, 0.05);
  std::vector<float> speed = constant(n, 1);
  speed[37] = 0;
  const std::vector<float> start = wave(n, 1, 2);
  WaveState state = solver.start(speed, start);
  for (int i = 0; i < 20; ++i) solver.step(state);
  EXPECT_EQ(state.steps, 20);
  EXPECT_EQ(state.u[37], start[37]);
  EXPECT_NE(state.u[38], start[38]);
}

}  // namespace
}  // namespace slift
