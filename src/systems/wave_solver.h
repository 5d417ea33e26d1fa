// The wave equation in a medium, on a periodic square:
//   u_tt = c(x)^2 Lap u,  x in [0, 2 pi)^2,  0 <= c <= 1,  u_t(0) = 0
// with a spectral Laplacian on an n x n grid and leapfrog in time:
//   v_{1/2} = (dt/2) c^2 Lap u_0,   v_{m+1/2} = v_{m-1/2} + dt c^2 Lap u_m,
//   u_{m+1} = u_m + dt v_{m+1/2}.
// That is u_{m+1} = 2 u_m - u_{m-1} + dt^2 c^2 Lap u_m started by u_1 = u_0 + (dt^2/2) c^2 Lap u_0,
// second order in dt, but rounding grows as the root of the number of steps rather than its power
// 3/2: single precision is enough. The steps conserve
//   E = 1/2 sum (v_{m+1/2} / c)^2 - 1/2 sum u_m Lap u_{m+1},
// where a point with c = 0, which never moves, adds nothing to the first sum.
// Dimensionless. Hairer, Lubich, Wanner, "Geometric numerical integration illustrated by the
// Stormer-Verlet method", Acta Numerica 2003.
#pragma once

#include <cstdint>
#include <span>

#include "core/fft.h"

namespace slift {

// One trajectory under way: all that a step reads and writes. Fields are n x n.
struct WaveState {
  FftVector<float> speed;
  FftVector<float> u;         // at time steps * dt
  FftVector<float> velocity;  // half a step before u; 0 at the start
  std::int64_t steps;

  RealFft2d<float>::Spectrum spectrum;  // scratch
  FftVector<float> laplacian;           // of the u before the last step
};

class WaveSolver {
 public:
  WaveSolver(std::int64_t grid, double dt) : fft_(grid, grid), dt_(static_cast<float>(dt)) {}

  // The largest dt for which no wave grows: 2 / (c_max k_max) with c_max = 1 and k_max the length
  // of the grid's largest wave vector.
  static double largest_stable_step(std::int64_t grid);

  // A trajectory at time 0, from the fields `speed` and u = `start`.
  WaveState start(std::span<const float> speed, std::span<const float> start) const;

  // Advances by one step a state made by start(). Threads may step different states at once.
  void step(WaveState& state) const;

  // The Laplacian of state.u into state.laplacian.
  void apply_laplacian(WaveState& state) const;

 private:
  RealFft2d<float> fft_;
  float dt_;
};

}  // namespace slift
