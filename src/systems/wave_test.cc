#include "systems/wave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors.h"
#include "core/testing.h"
#include "systems/speed_field.h"
#include "systems/wave_solver.h"

namespace slift {
namespace {

TEST(Wave, DefaultsAreThePapers) {
  const Wave system;
  const TrajectoryInfo info = system.describe();
  EXPECT_EQ(info.steps, 64);
  EXPECT_EQ(info.state_shape, (std::vector<std::int64_t>{1, 64, 64}));
  EXPECT_DOUBLE_EQ(info.dt, 8.0 / 63);
  EXPECT_EQ(info.boundary, "periodic");
  EXPECT_EQ(info.fields, std::vector<std::string>{"u"});
  EXPECT_EQ(info.media_shape, (std::vector<std::int64_t>{1, 64, 64}));
  EXPECT_EQ(info.media_fields, std::vector<std::string>{"speed"});
  EXPECT_EQ(system.grid, 256);
  EXPECT_EQ(system.inner_dt, 4e-3);
  EXPECT_EQ(system.peak, 1);
  EXPECT_EQ(system.width, 0.25);
}

TEST(Wave, StoredStepsAreTheFloorOfALinearSpacing) {
  const std::vector<std::int64_t> steps = Wave().stored_steps();
  ASSERT_EQ(steps.size(), 64u);
  EXPECT_EQ((std::vector<std::int64_t>(steps.begin(), steps.begin() + 5)),
            (std::vector<std::int64_t>{0, 31, 63, 95, 126}));
  EXPECT_EQ(steps[62], 1968);
  EXPECT_EQ(steps[63], 2000);
}

// A system of 24^2 points, of which every third is stored, with steps 0, 16, 33, 50 stored.
Wave small() {
  Wave system;
  system.grid = 24, system.stored_grid = 8, system.inner_dt = 0.04, system.end = 2;
  system.stored = 4;
  return system;
}

TEST(Wave, StartsFromThePulseInTheMiddle) {
  Wave system = small();
  system.stored_grid = 24;
  std::vector<float> states(static_cast<std::size_t>(system.describe().trajectory_size()));
  system.simulate({1, 0, 1, states, {}});
  for (int i = 0; i < 24 * 24; ++i) {
    const double radius = std::numbers::pi / 12 * std::hypot(i / 24 - 12, i % 24 - 12);
    EXPECT_NEAR(states[static_cast<std::size_t>(i)], std::exp(-30 * radius * radius), 1e-7);
  }
  EXPECT_EQ(states[24 * 12 + 12], 1.0f);
}

TEST(Wave, StoresEveryThirdPointOfTheStepsAskedFor) {
  Wave system = small();
  const TrajectoryInfo info = system.describe();
  std::vector<float> states(static_cast<std::size_t>(2 * info.trajectory_size()));
  std::vector<float> media(static_cast<std::size_t>(2 * info.media_size()));
  system.simulate({5, 10, 2, states, media});

  std::vector<float> start;
  for (int i = 0; i < 24 * 24; ++i) {
    const double radius = std::numbers::pi / 12 * std::hypot(i / 24 - 12, i % 24 - 12);
    start.push_back(static_cast<float>(std::exp(-30 * radius * radius)));
  }
  const WaveSolver solver(24, 0.04);
  const SpeedField speeds(24, 1, 0.25);
  auto state_value = states.begin(), medium_value = media.begin();
  for (const std::uint64_t index : {10u, 11u}) {
    WaveState state = solver.start(speeds.sample(5, index), start);
    const auto every_third = [](const FftVector<float>& field, int i) {
      return field[static_cast<std::size_t>(i / 8 * 3 * 24 + i % 8 * 3)];
    };
    for (int i = 0; i < 64; ++i) EXPECT_EQ(*medium_value++, every_third(state.speed, i));
    for (const int step : {0, 16, 33, 50}) {
      while (state.steps < step) solver.step(state);
      // The start above is rounded in its own way.
      for (int i = 0; i < 64; ++i) EXPECT_NEAR(*state_value++, every_third(state.u, i), 1e-5);
    }
  }
}

TEST(Wave, CombinationsAreChecked) {
  const auto message = [](const char* setting) {
    Wave system;
    system.schema().apply_setting(setting);
    return error_of([&] { system.describe(); });
  };
  EXPECT_EQ(message("stored_grid=48"), "wave: stored_grid 48 must divide grid 256");
  EXPECT_EQ(message("inner_dt=0.02"),
            "wave: inner_dt 0.02 must be at most 0.0110485 to be stable on grid 256");
  EXPECT_EQ(message("inner_dt=0.003"), "wave: end 8 must be a multiple of inner_dt 0.003");
  EXPECT_EQ(message("end=0.001"), "wave: end 0.001 must be a multiple of inner_dt 0.004");
  EXPECT_EQ(message("end=1e200"), "wave: end 1e+200 must be at most 1e9 steps of inner_dt 0.004");
  EXPECT_EQ(message("stored=2002"),
            "wave: stored 2002 must be at most 2001, the inner steps plus 1");
  EXPECT_EQ(message("peak=128"), "wave: peak 128 must be below half of grid 256");
  for (const char* fine : {"stored_grid=256", "inner_dt=0.01", "stored=2001", "peak=60"}) {
    EXPECT_EQ(message(fine), "") << fine;
  }
}

TEST(Wave, FieldsAreChecked) {
  Wave system;
  for (const char* setting :
       {"grid=0", "grid=-8", "grid=5000", "stored_grid=0", "inner_dt=0", "inner_dt=-1", "end=0",
        "stored=1", "peak=0", "width=0", "width=-1"}) {
    EXPECT_THROW(system.schema().apply_setting(setting), UserError) << setting;
  }
}

#ifdef SLIFT_WITH_CUDA
TEST(Wave, CudaGivesTheSameBitsForAnyBatch) {
  if (!cuda_usable()) return;
  Wave system = small();
  const TrajectoryInfo info = system.describe();
  constexpr std::int64_t members = 150;  // more than two rounds of the device
  const auto size = static_cast<std::size_t>(info.trajectory_size()),
             media_size = static_cast<std::size_t>(info.media_size());
  std::vector<float> whole(members * size), media(members * media_size);
  system.simulate({5, 0, members, whole, media}, Device::kCuda);
  std::vector<float> cpu_media(media.size()), cpu(whole.size());
  system.simulate({5, 0, members, cpu, cpu_media});
  EXPECT_EQ(media, cpu_media);
  for (std::size_t i = 0; i < cpu.size(); ++i) ASSERT_NEAR(whole[i], cpu[i], 1e-4);
  for (const std::int64_t count : {1, 7, 64, 66}) {
    std::vector<float> part(static_cast<std::size_t>(count) * size);
    system.simulate({5, 80, count, part, {}}, Device::kCuda);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 80 * info.trajectory_size()))
        << count;
  }
}
#endif

}  // namespace
}  // namespace slift
