// Stochastic colour video in the spirit of CLEVRER (Yi et al., ICLR 2020): shaded spheres and
// boxes, matte or metal, of random size and colour enter the picture at random times, slide over a
// grey floor with friction, collide elastically and leave. Motion: scene_physics.h; pictures:
// scene_render.h. Red, green and blue lie in [0, 1]. A clip starts in the stationary regime; its
// first frames do not depend on its length.
#pragma once

#include "systems/scene_physics.h"
#include "systems/scene_render.h"
#include "systems/system.h"

namespace slift {

class Scene : public System {
 public:
  ConfigSchema schema() override;
  TrajectoryInfo describe() const override;
  std::int64_t preferred_batch(Device device) const override;

  std::int64_t size = 128;
  std::int64_t stored = 16;
  double dt = 0.1;
  double warmup = 100;  // time before the first frame, from an empty floor
  ScenePhysicsParameters physics;

 private:
  void simulate_cpu(const SimulationBatch& batch) override;
#ifdef SLIFT_WITH_CUDA
  void simulate_cuda(const SimulationBatch& batch) override;
#endif
  // What there is to see in each frame of a batch, [count, stored].
  std::vector<SceneFrame> film(const SimulationBatch& batch, const SceneView& view) const;
};

}  // namespace slift
