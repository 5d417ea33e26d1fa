#include "systems/scene.h"

#include <cmath>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/random.h"
#ifdef SLIFT_WITH_CUDA
#include "systems/cuda/scene.h"
#endif

namespace slift {
namespace {

static_assert(kMaxBodies <= kMaxObjects);

// A colour of the wheel: hue in turns.
Vec3 wheel(float hue, float saturation, float value) {
  const auto channel = [&](float shift) {
    const float position = std::fabs(6.0f * (hue + shift - std::floor(hue + shift)) - 3.0f) - 1.0f;
    return value * (1.0f - saturation * (1.0f - scene::clamp01(position)));
  };
  return {channel(0.0f), channel(2.0f / 3), channel(1.0f / 3)};
}

SceneLook look_of(const Body& body, std::uint64_t seed, std::uint64_t trajectory) {
  float u[4];
  fill_uniform({seed, Purpose::kInitialState, trajectory, body.number}, u);
  return {body.box, u[0] > 0.5f, wheel(u[1], 0.55f + 0.4f * u[2], 0.35f + 0.45f * u[3])};
}

}  // namespace

ConfigSchema Scene::schema() {
  ConfigSchema s;
  const Rule radius = within(0.1, 0.8), speed = within(0.01, 100);
  s.field("size", &size, Effect::kResults, "pixels along a side", within(16, 4096));
  s.field("stored", &stored, Effect::kResults, "stored frames", at_least(2));
  s.field("dt", &dt, Effect::kResults, "time between frames", above(0));
  s.field("warmup", &warmup, Effect::kResults, "time before the first frame", at_least(0));
  s.field("arrival_rate", &physics.arrival_rate, Effect::kResults, "arrivals per time",
          within(1e-6, 100));
  s.field("friction", &physics.friction, Effect::kResults, "deceleration", at_least(0));
  s.field("radius_min", &physics.radius_min, Effect::kResults, "smallest radius", radius);
  s.field("radius_max", &physics.radius_max, Effect::kResults, "largest radius", radius);
  s.field("speed_min", &physics.speed_min, Effect::kResults, "smallest speed of entry", speed);
  s.field("speed_max", &physics.speed_max, Effect::kResults, "largest speed of entry", speed);
  s.field("rest", &physics.rest, Effect::kResults, "mean time at rest before a push", above(0));
  return s;
}

TrajectoryInfo Scene::describe() const {
  require(physics.radius_min <= physics.radius_max,
          "scene: radius_min {} must not exceed radius_max {}", physics.radius_min,
          physics.radius_max);
  require(physics.speed_min <= physics.speed_max,
          "scene: speed_min {} must not exceed speed_max {}", physics.speed_min, physics.speed_max);
  TrajectoryInfo info;
  info.steps = stored;
  info.state_shape = {3, size, size};
  info.dt = dt;
  info.system = "scene";
  info.fields = {"red", "green", "blue"};
  return info;
}

std::int64_t Scene::preferred_batch(Device device) const {
  TrajectoryInfo info = describe();
  info.members = 256;
  return members_within(info, device == Device::kCuda ? 512 << 20 : 64 << 20);
}

std::vector<SceneFrame> Scene::film(const SimulationBatch& batch, const SceneView& view) const {
  std::vector<SceneFrame> frames(static_cast<std::size_t>(batch.count * stored));
  parallel_for(batch.count, [&](std::int64_t i) {
    const auto trajectory = static_cast<std::uint64_t>(batch.first + i);
    ScenePhysics motion(physics, batch.seed, trajectory);
    motion.advance(warmup);
    for (std::int64_t t = 0; t < stored; ++t) {
      if (t > 0) motion.advance(dt);
      SceneFrame& frame = frames[static_cast<std::size_t>(i * stored + t)];
      for (const Body& body : motion.bodies()) {
        const SceneObject object =
            place_object(view, look_of(body, batch.seed, trajectory), body.x, body.y,
                         body.box ? box_half_side(body) : body.radius, body.angle);
        if (in_sight(view, object)) frame.objects[frame.count++] = object;
      }
    }
  });
  return frames;
}

void Scene::simulate_cpu(const SimulationBatch& batch) {
  const SceneView view = make_scene_view(static_cast<int>(size));
  const std::vector<SceneFrame> frames = film(batch, view);
  const auto pixels = static_cast<std::size_t>(3 * size * size);
  std::vector<float> background(pixels);
  render_background(view, background);
  parallel_for(batch.count * stored, [&](std::int64_t f) {
    const auto frame = static_cast<std::size_t>(f);
    render_frame(view, frames[frame], background, batch.states.subspan(frame * pixels, pixels));
  });
}

#ifdef SLIFT_WITH_CUDA
void Scene::simulate_cuda(const SimulationBatch& batch) {
  const SceneView view = make_scene_view(static_cast<int>(size));
  cuda::render_scene(view, film(batch, view), batch.states);
}
#endif

}  // namespace slift
