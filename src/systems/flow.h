// Two-phase flow of water and oil through a random porous medium (Aarnes, Gimse, Lie, "An
// introduction to the numerics of flow in porous media using Matlab", 2007):
//
//   -div(K lambda(s) grad p) = q          v = -K lambda(s) grad p
//   phi s_t + div(f(s) v) = q_w
//
// on the unit square, porosity phi = 1, no flow through the edges. Water enters with rate 1 in the
// upper left cell; the lower right one produces what arrives, at rate 1. s is the saturation of
// water, s = s_wc at the start; lambda and f as in flow_physics.h. Dimensionless: at t = 1 as much
// water has been injected as the pores hold.
//
// The permeability is K = exp(eps Z + Y) with independent Gaussian fields Z and Y of Matern
// covariance (matern.h), drawn anew for each trajectory: the only randomness.
//
// Pressure by two-point fluxes, harmonic means of K lambda on faces, once every `dt`; between, s is
// transported upwind in as many explicit sub-steps as are stable. The state after every
// `store_every` steps is stored, without the first `crop` rows and columns. Defaults as in the
// Stochastic Lifting paper (whose end time 0.7 lies one stored step after the last stored state).
#pragma once

#include "systems/flow_step.h"
#include "systems/matern.h"
#include "systems/system.h"

namespace slift {

class Flow : public System {
 public:
  ConfigSchema schema() override;
  TrajectoryInfo describe() const override;
  bool can_branch() const override { return true; }  // all trajectories start alike
  std::int64_t preferred_batch(Device device) const override;

  std::int64_t grid = 100;       // cells a side
  std::int64_t crop = 4;         // first rows and columns that are not stored
  double dt = 0.007;             // outer step
  std::int64_t store_every = 2;  // outer steps
  std::int64_t stored = 50;      // states
  double mu_w = 1, mu_o = 1;     // viscosities
  double s_wc = 0, s_or = 0;     // saturations that do not move
  double sigma = 3;              // of the log-permeability
  double length = 10;            // its correlation length, in cells
  double eps = 0.01;             // amplitude of Z

 private:
  void simulate_cpu(const SimulationBatch& batch) override;
#ifdef SLIFT_WITH_CUDA
  void simulate_cuda(const SimulationBatch& batch) override;
#endif
  flow::Reservoir reservoir() const;
  // K of trajectory i of the batch, [grid * grid]; also stores its media if they are asked for.
  void draw_permeability(const MaternField& field, const SimulationBatch& batch, std::int64_t i,
                         std::span<double> permeability) const;
  // The part of a field that is stored.
  void store_window(const double* cells, float* out) const;
};

}  // namespace slift
