// Waves from a pulse in a random medium:
//   u_tt = c(x)^2 Lap u on [0, 2 pi)^2, periodic;  u(0) = exp(-30 |x - (pi, pi)|^2),  u_t(0) = 0.
// The speed c is drawn anew for each trajectory (speed_field.h) and is its medium; the pulse is
// always the same. Solved on `grid`^2 points with steps of `inner_dt` (wave_solver.h). Of the S =
// end / inner_dt steps the states floor(j S / (stored - 1)) are kept, j = 0 .. stored-1, each at
// every (grid / stored_grid)-th point. Dimensionless. Defaults as in the Stochastic Lifting paper.
#pragma once

#include <vector>

#include "systems/system.h"

namespace slift {

class Wave : public System {
 public:
  ConfigSchema schema() override;
  TrajectoryInfo describe() const override;
  bool can_branch() const override { return true; }  // all trajectories start alike
  std::int64_t preferred_batch(Device device) const override;

  // The inner steps at which states are stored, from 0 to S.
  std::vector<std::int64_t> stored_steps() const;

  std::int64_t grid = 256;
  std::int64_t stored_grid = 64;
  double inner_dt = 4e-3;
  double end = 8.0;
  std::int64_t stored = 64;
  double peak = 1.0;
  double width = 0.25;

 private:
  void simulate_cpu(const SimulationBatch& batch) override;
#ifdef SLIFT_WITH_CUDA
  void simulate_cuda(const SimulationBatch& batch) override;
#endif
  std::int64_t inner_steps() const;
  std::vector<float> pulse() const;  // u(0), grid x grid
  // Every (grid / stored_grid)-th point of a grid x grid field.
  void thin(std::span<const float> field, float* stored_field) const;
};

}  // namespace slift
