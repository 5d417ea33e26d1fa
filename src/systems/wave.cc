#include "systems/wave.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors.h"
#include "core/parallel.h"
#include "systems/speed_field.h"
#include "systems/wave_solver.h"
#ifdef SLIFT_WITH_CUDA
#include "systems/cuda/wave.h"
#endif

namespace slift {

ConfigSchema Wave::schema() {
  ConfigSchema s;
  s.field("grid", &grid, Effect::kResults, "grid points per side", within(4, 4096));
  s.field("stored_grid", &stored_grid, Effect::kResults, "stored points per side; divides grid",
          at_least(1));
  s.field("inner_dt", &inner_dt, Effect::kResults, "leapfrog step", above(0));
  s.field("end", &end, Effect::kResults, "end time", above(0));
  s.field("stored", &stored, Effect::kResults, "stored states", at_least(2));
  s.field("peak", &peak, Effect::kResults, "peak wave number of the speed field", above(0));
  s.field("width", &width, Effect::kResults, "variance of ln k in the speed field's spectrum",
          above(0));
  return s;
}

std::int64_t Wave::inner_steps() const {
  const double steps = end / inner_dt, whole = std::round(steps);
  require(whole >= 1 && std::abs(steps - whole) < 1e-6 * whole,
          "wave: end {} must be a multiple of inner_dt {}", end, inner_dt);
  require(whole <= 1e9, "wave: end {} must be at most 1e9 steps of inner_dt {}", end, inner_dt);
  return static_cast<std::int64_t>(whole);
}

std::vector<std::int64_t> Wave::stored_steps() const {
  const std::int64_t last = inner_steps();
  std::vector<std::int64_t> steps;
  for (std::int64_t j = 0; j < stored; ++j) steps.push_back(j * last / (stored - 1));
  return steps;
}

TrajectoryInfo Wave::describe() const {
  require(grid % stored_grid == 0, "wave: stored_grid {} must divide grid {}", stored_grid, grid);
  require(inner_dt <= WaveSolver::largest_stable_step(grid),
          "wave: inner_dt {} must be at most {:.6g} to be stable on grid {}", inner_dt,
          WaveSolver::largest_stable_step(grid), grid);
  require(inner_steps() >= stored - 1, "wave: stored {} must be at most {}, the inner steps plus 1",
          stored, inner_steps() + 1);
  require(peak < static_cast<double>(grid) / 2, "wave: peak {} must be below half of grid {}", peak,
          grid);
  TrajectoryInfo info;
  info.steps = stored;
  info.state_shape = {1, stored_grid, stored_grid};
  info.dt = end / static_cast<double>(stored - 1);
  info.system = "wave";
  info.boundary = "periodic";
  info.fields = {"u"};
  info.media_shape = info.state_shape;
  info.media_fields = {"speed"};
  return info;
}

std::int64_t Wave::preferred_batch(Device device) const {
  // A core takes a good half second for a trajectory of the paper; a GPU does hundreds in that
  // time.
  return device == Device::kCuda ? 128 : 4 * omp_get_max_threads();
}

std::vector<float> Wave::pulse() const {
  std::vector<float> u;
  u.reserve(static_cast<std::size_t>(grid * grid));
  const auto from_centre = [&](std::int64_t i) {
    return std::numbers::pi * (2 * static_cast<double>(i) / static_cast<double>(grid) - 1);
  };
  for (std::int64_t row = 0; row < grid; ++row) {
    for (std::int64_t column = 0; column < grid; ++column) {
      const double x = from_centre(column), y = from_centre(row);
      u.push_back(static_cast<float>(std::exp(-30 * (x * x + y * y))));
    }
  }
  return u;
}

void Wave::thin(std::span<const float> field, float* stored_field) const {
  const std::int64_t stride = grid / stored_grid;
  for (std::int64_t row = 0; row < grid; row += stride) {
    for (std::int64_t column = 0; column < grid; column += stride) {
      *stored_field++ = field[static_cast<std::size_t>(row * grid + column)];
    }
  }
}

void Wave::simulate_cpu(const SimulationBatch& batch) {
  const SpeedField speed_field(grid, peak, width);
  const WaveSolver solver(grid, inner_dt);
  const std::vector<float> start = pulse();
  const std::vector<std::int64_t> store = stored_steps();
  const std::int64_t frame = stored_grid * stored_grid;
  parallel_for(batch.count, [&](std::int64_t i) {
    const std::vector<float> speed =
        speed_field.sample(batch.seed, static_cast<std::uint64_t>(batch.first + i));
    if (!batch.media.empty()) thin(speed, batch.media.data() + i * frame);
    WaveState state = solver.start(speed, start);
    float* to = batch.states.data() + i * stored * frame;
    for (const std::int64_t step : store) {
      while (state.steps < step) solver.step(state);
      thin(state.u, to);
      to += frame;
    }
  });
}

#ifdef SLIFT_WITH_CUDA
void Wave::simulate_cuda(const SimulationBatch& batch) {
  const SpeedField speed_field(grid, peak, width);
  cuda::WaveBatch device({.grid = grid,
                          .stored_grid = stored_grid,
                          .dt = inner_dt,
                          .stored_steps = stored_steps(),
                          .start = pulse()});
  const std::int64_t frame = stored_grid * stored_grid, size = stored * frame;
  std::vector<float> speeds(static_cast<std::size_t>(cuda::WaveBatch::kWaves * grid * grid));
  for (std::int64_t first = 0; first < batch.count; first += cuda::WaveBatch::kWaves) {
    const std::int64_t count = std::min(cuda::WaveBatch::kWaves, batch.count - first);
    parallel_for(count, [&](std::int64_t i) {
      const std::vector<float> speed =
          speed_field.sample(batch.seed, static_cast<std::uint64_t>(batch.first + first + i));
      if (!batch.media.empty()) thin(speed, batch.media.data() + (first + i) * frame);
      std::copy(speed.begin(), speed.end(), speeds.begin() + i * grid * grid);
    });
    device.run(speeds, batch.states.subspan(static_cast<std::size_t>(first * size),
                                            static_cast<std::size_t>(count * size)));
  }
}
#endif

}  // namespace slift
