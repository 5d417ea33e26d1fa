// The Duffing oscillator with additive noise:
//   dx1 = x2 dt
//   dx2 = (-damping x2 + x1 - stiffness x1^3) dt + noise dW
// from x(0) ~ N([0, 10], initial_variance I), by Euler-Maruyama with step `inner_dt`. Wells lie at
// x1 = +-1/sqrt(stiffness). Dimensionless. Defaults as in the Stochastic Lifting paper.
#pragma once

#include "systems/duffing_path.h"
#include "systems/system.h"

namespace slift {

class Duffing : public System {
 public:
  ConfigSchema schema() override;
  TrajectoryInfo describe() const override;
  bool can_branch() const override { return true; }
  std::int64_t preferred_batch(Device device) const override;

  double damping = 0.4;
  double stiffness = 0.2;
  double noise = 1.0;
  double initial_variance = 0.5;
  double inner_dt = 2e-3;
  double end = 14.0;
  std::int64_t stored = 71;

 private:
  void simulate_cpu(const SimulationBatch& batch) override;
#ifdef SLIFT_WITH_CUDA
  void simulate_cuda(const SimulationBatch& batch) override;
#endif
  std::int64_t inner_steps() const;  // per stored step
  DuffingModel model() const;
};

}  // namespace slift
