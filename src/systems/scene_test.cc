#include "systems/scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/testing.h"

namespace slift {
namespace {

std::vector<float> simulate(Scene& scene, std::int64_t members, std::uint64_t seed = 8) {
  std::vector<float> states(static_cast<std::size_t>(members * scene.describe().trajectory_size()));
  scene.simulate({seed, 0, members, states, {}});
  return states;
}

Scene small_scene() {
  Scene scene;
  scene.size = 32, scene.warmup = 30;
  return scene;
}

TEST(Scene, DefaultsAreClipsForTraining) {
  const TrajectoryInfo info = Scene().describe();
  EXPECT_EQ(info.steps, 16);
  EXPECT_EQ(info.state_shape, (std::vector<std::int64_t>{3, 128, 128}));
  EXPECT_EQ(info.fields, (std::vector<std::string>{"red", "green", "blue"}));
  EXPECT_EQ(info.boundary, "none");
}

TEST(Scene, PixelsLieBetweenZeroAndOne) {
  Scene scene = small_scene();
  scene.physics.arrival_rate = 3;
  const std::vector<float> states = simulate(scene, 8);
  EXPECT_TRUE(std::all_of(states.begin(), states.end(), [](float x) { return x >= 0 && x <= 1; }));
  EXPECT_LT(*std::min_element(states.begin(), states.end()), 0.3f);
  EXPECT_GT(*std::max_element(states.begin(), states.end()), 0.8f);
}

TEST(Scene, LongVideosBeginAsShortOnes) {
  Scene scene = small_scene();
  scene.stored = 4;
  const std::vector<float> brief = simulate(scene, 2);
  scene.stored = 9;
  const std::vector<float> extended = simulate(scene, 2);
  const std::size_t clip = brief.size() / 2, video = extended.size() / 2;
  for (std::size_t member = 0; member < 2; ++member) {
    EXPECT_TRUE(std::equal(brief.data() + member * clip, brief.data() + (member + 1) * clip,
                           extended.data() + member * video));
  }
}

TEST(Scene, PicturesShowTheBodies) {
  // Where a body's middle is projected the picture differs from the empty floor and, if it moves,
  // from the picture some frames later.
  Scene scene = small_scene();
  scene.size = 64, scene.stored = 8, scene.warmup = 50;
  const SceneView view = make_scene_view(64);
  const std::size_t pixels = 64 * 64, frame_size = 3 * pixels;
  std::vector<float> floor(frame_size);
  render_background(view, floor);
  constexpr std::int64_t members = 12;
  const std::vector<float> states = simulate(scene, members);
  int seen = 0, moved = 0;
  for (std::int64_t m = 0; m < members; ++m) {
    ScenePhysics motion(scene.physics, 8, static_cast<std::uint64_t>(m));
    motion.advance(scene.warmup);
    const float* first = states.data() + m * scene.describe().trajectory_size();
    const float* last = first + 7 * frame_size;
    for (const Body& body : motion.bodies()) {
      const PixelRect r = place_object(view, {}, body.x, body.y, box_half_side(body), 0).outline;
      const int row = (r.top + r.bottom) / 2, column = (r.left + r.right) / 2;
      if (row < 0 || row >= 64 || column < 0 || column >= 64) continue;
      const auto pixel = static_cast<std::size_t>(64 * row + column);
      const auto difference = [&](const float* a, const float* b) {
        return std::fabs(a[pixel] - b[pixel]) + std::fabs(a[pixel + pixels] - b[pixel + pixels]) +
               std::fabs(a[pixel + 2 * pixels] - b[pixel + 2 * pixels]);
      };
      ++seen;
      EXPECT_GT(difference(first, floor.data()), 0.02f) << m << ", body " << body.number;
      const double path = 0.7 * std::hypot(body.vx, body.vy);
      if (path > 3 * body.radius) moved += difference(first, last) > 0.02f ? 1 : -100;
    }
  }
  EXPECT_GT(seen, 20);
  EXPECT_GT(moved, 0);
}

TEST(Scene, NothingHappensOnAnEmptyFloor) {
  Scene scene = small_scene();
  scene.physics.arrival_rate = 1e-6;
  const std::vector<float> states = simulate(scene, 1);
  std::vector<float> floor(3 * 32 * 32);
  render_background(make_scene_view(32), floor);
  for (std::size_t i = 0; i < states.size(); ++i) ASSERT_EQ(states[i], floor[i % floor.size()]);
}

TEST(Scene, ClipsStartInTheStationaryRegime) {
  // Bodies in sight, averaged over the first 200 frames and over 200 frames much later, agree in
  // the mean over trajectories.
  const Scene scene;
  constexpr int members = 60, window = 200, late = 600;
  const auto in_sight_now = [](const ScenePhysics& motion) {
    const auto bodies = motion.bodies();
    return static_cast<double>(std::count_if(bodies.begin(), bodies.end(), [](const Body& body) {
      return std::hypot(body.x, body.y) < kSightRadius;
    }));
  };
  double sum = 0, squares = 0, level = 0;
  for (std::uint64_t m = 0; m < members; ++m) {
    ScenePhysics motion(scene.physics, 21, m);
    motion.advance(scene.warmup);
    double change = 0;
    for (int frame = 0; frame < late + window; ++frame) {
      const double count = in_sight_now(motion) / window;
      if (frame < window) change -= count, level += count / members;
      if (frame >= late) change += count;
      motion.advance(scene.dt);
    }
    sum += change, squares += change * change;
  }
  const double mean = sum / members, spread = std::sqrt(squares / members - mean * mean);
  EXPECT_NEAR(mean, 0, 3 * spread / std::sqrt(members));
  EXPECT_LT(3 * spread / std::sqrt(members), 0.25 * level);  // the test would see a quarter
  EXPECT_GT(level, 3);
  EXPECT_LT(level, 8);
}

TEST(Scene, BadParametersAreNamed) {
  Scene scene;
  for (const char* setting :
       {"size=0", "size=15", "stored=1", "dt=0", "warmup=-1", "arrival_rate=0", "friction=-0.1",
        "radius_min=0", "radius_max=2", "speed_min=0", "rest=0"}) {
    const std::string message = error_of([&] { scene.schema().apply_setting(setting); });
    const std::string key = std::string(setting).substr(0, std::string(setting).find('='));
    EXPECT_NE(message.find(key), std::string::npos) << setting << ": " << message;
  }
  scene = Scene();
  scene.physics.radius_max = 0.2;
  EXPECT_EQ(error_of([&] { scene.describe(); }),
            "scene: radius_min 0.4 must not exceed radius_max 0.2");
  scene = Scene();
  scene.physics.speed_max = 1;
  EXPECT_EQ(error_of([&] { scene.describe(); }),
            "scene: speed_min 1.5 must not exceed speed_max 1");
}

}  // namespace
}  // namespace slift
