#include "systems/flow.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/errors.h"
#include "core/parallel.h"
#include "systems/pressure.h"
#ifdef SLIFT_WITH_CUDA
#include "systems/cuda/flow.h"
#endif

namespace slift {

namespace {

// Throws if a trajectory of the batch stopped; stopped_at[i] is the outer step, or -1.
void check_stopped(const std::vector<std::int64_t>& stopped_at, std::int64_t first) {
  for (std::size_t i = 0; i < stopped_at.size(); ++i) {
    if (stopped_at[i] < 0) continue;
    throw std::runtime_error(
        fmt::format("flow: no pressure found for trajectory {} at step {}; the permeabilities may "
                    "vary too much (sigma)",
                    first + static_cast<std::int64_t>(i), stopped_at[i]));
  }
}

}  // namespace

ConfigSchema Flow::schema() {
  ConfigSchema s;
  s.field("grid", &grid, Effect::kResults, "cells a side", within(2, 1024));
  s.field("crop", &crop, Effect::kResults, "first rows and columns not stored", at_least(0));
  s.field("dt", &dt, Effect::kResults, "step between pressure solves", above(0));
  s.field("store_every", &store_every, Effect::kResults, "steps from one stored state to the next",
          at_least(1));
  s.field("stored", &stored, Effect::kResults, "stored states", at_least(2));
  s.field("mu_w", &mu_w, Effect::kResults, "viscosity of water", above(0));
  s.field("mu_o", &mu_o, Effect::kResults, "viscosity of oil", above(0));
  s.field("s_wc", &s_wc, Effect::kResults, "connate water: saturation at the start", at_least(0));
  s.field("s_or", &s_or, Effect::kResults, "residual oil", at_least(0));
  s.field("sigma", &sigma, Effect::kResults, "standard deviation of Y and Z, of log permeability",
          within(0, 5));
  s.field("length", &length, Effect::kResults, "their correlation length in cells", within(1, 200));
  s.field("eps", &eps, Effect::kResults, "amplitude of Z", within(0, 1));
  return s;
}

TrajectoryInfo Flow::describe() const {
  require(crop < grid, "flow: crop {} must be less than grid {}", crop, grid);
  require(s_wc + s_or < 1, "flow: s_wc + s_or must be less than 1, and is {}", s_wc + s_or);
  const flow::Reservoir r = reservoir();
  const double substeps = r.rate * r.fluids.steepest_flow() * r.dt / r.pore_volume;
  require(substeps <= 1e5,
          "flow: dt {} takes {:.0f} stable transport steps; at most 1e5 are allowed", dt, substeps);
  TrajectoryInfo info;
  info.steps = stored;
  info.state_shape = {1, grid - crop, grid - crop};
  info.dt = dt * static_cast<double>(store_every);
  info.system = "flow";
  info.fields = {"saturation"};
  info.media_shape = info.state_shape;
  info.media_fields = {"log_permeability"};
  return info;
}

std::int64_t Flow::preferred_batch(Device device) const {
  return device == Device::kCuda ? 264 : 32;  // 2 for each multiprocessor of an H100 or H200
}

flow::Reservoir Flow::reservoir() const {
  const auto side = static_cast<int>(grid);
  const auto cells = static_cast<double>(side * side);
  return {.grid = {side, side},
          .fluids = flow::Fluids(mu_w, mu_o, s_wc, s_or),
          .dt = dt,
          .pore_volume = 1 / cells,
          .rate = 1};
}

void Flow::draw_permeability(const MaternField& field, const SimulationBatch& batch, std::int64_t i,
                             std::span<double> permeability) const {
  std::vector<double> z(permeability.size());
  field.sample_pair(
      {batch.seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(batch.first + i), 0}, z,
      permeability);
  for (std::size_t c = 0; c < z.size(); ++c) permeability[c] += eps * z[c];
  if (!batch.media.empty()) {
    const std::int64_t size = (grid - crop) * (grid - crop);
    store_window(permeability.data(), batch.media.data() + i * size);
  }
  for (double& k : permeability) k = std::exp(k);
}

void Flow::store_window(const double* cells, float* out) const {
  for (std::int64_t y = crop; y < grid; ++y) {
    for (std::int64_t x = crop; x < grid; ++x) *out++ = static_cast<float>(cells[y * grid + x]);
  }
}

void Flow::simulate_cpu(const SimulationBatch& batch) {
  const flow::Reservoir r = reservoir();
  const MaternField field(grid, sigma, length);
  const flow::PressurePattern pattern(r.grid);
  flow::WorkspacePlan plan;
  const flow::StepLayout layout(r.grid, plan);
  const std::int64_t frame = (grid - crop) * (grid - crop);
  std::vector<std::int64_t> stopped_at(static_cast<std::size_t>(batch.count), -1);
  parallel_for(batch.count, [&](std::int64_t i) {
    std::vector<double> permeability(static_cast<std::size_t>(r.grid.cells()));
    draw_permeability(field, batch, i, permeability);
    std::vector<double> workspace(static_cast<std::size_t>(plan.size()));
    double* const saturation = workspace.data() + layout.saturation;
    std::fill_n(saturation, r.grid.cells(), s_wc);
    flow::DirectPressure pressure(pattern);
    const auto solve = [&](const flow::TwoPointOperator& a, const double* rhs, double tolerance,
                           double* x) { return pressure.solve(a, rhs, tolerance, x) >= 0; };
    float* out = batch.states.data() + i * stored * frame;
    store_window(saturation, out);
    for (std::int64_t step = 1; step <= (stored - 1) * store_every; ++step) {
      if (!flow::advance(flow::SerialTeam(), r, layout, permeability.data(), workspace.data(),
                         solve)) {
        stopped_at[static_cast<std::size_t>(i)] = step;
        return;
      }
      if (step % store_every == 0) store_window(saturation, out += frame);
    }
  });
  check_stopped(stopped_at, batch.first);
}

#ifdef SLIFT_WITH_CUDA
void Flow::simulate_cuda(const SimulationBatch& batch) {
  const flow::Reservoir r = reservoir();
  const MaternField field(grid, sigma, length);
  const auto cells = static_cast<std::size_t>(r.grid.cells());
  std::vector<double> permeability(static_cast<std::size_t>(batch.count) * cells);
  parallel_for(batch.count, [&](std::int64_t i) {
    draw_permeability(field, batch, i,
                      std::span(permeability).subspan(static_cast<std::size_t>(i) * cells, cells));
  });
  check_stopped(cuda::simulate_flow({.reservoir = r,
                                     .crop = static_cast<int>(crop),
                                     .store_every = store_every,
                                     .stored = stored},
                                    permeability, batch.states),
                batch.first);
}
#endif

}  // namespace slift
