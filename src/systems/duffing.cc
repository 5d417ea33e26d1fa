#include "systems/duffing.h"

#include <cmath>

#include "core/errors.h"
#include "core/parallel.h"
#ifdef SLIFT_WITH_CUDA
#include "systems/cuda/duffing.h"
#endif

namespace slift {

ConfigSchema Duffing::schema() {
  ConfigSchema s;
  s.field("damping", &damping, Effect::kResults, "linear damping", at_least(0));
  s.field("stiffness", &stiffness, Effect::kResults, "cubic stiffness", at_least(0));
  s.field("noise", &noise, Effect::kResults, "noise amplitude", at_least(0));
  s.field("initial_variance", &initial_variance, Effect::kResults, "variance of x(0)", at_least(0));
  s.field("inner_dt", &inner_dt, Effect::kResults, "Euler-Maruyama step", above(0));
  s.field("end", &end, Effect::kResults, "end time", above(0));
  s.field("stored", &stored, Effect::kResults, "stored states", at_least(2));
  return s;
}

std::int64_t Duffing::inner_steps() const {
  const double steps = end / static_cast<double>(stored - 1) / inner_dt;
  const double whole = std::round(steps);
  require(whole >= 1 && std::abs(steps - whole) < 1e-6 * whole,
          "duffing: the stored step {} must be a multiple of inner_dt {}",
          end / static_cast<double>(stored - 1), inner_dt);
  return static_cast<std::int64_t>(whole);
}

TrajectoryInfo Duffing::describe() const {
  inner_steps();
  TrajectoryInfo info;
  info.steps = stored;
  info.state_shape = {2};
  info.dt = end / static_cast<double>(stored - 1);
  info.system = "duffing";
  info.fields = {"x1", "x2"};
  return info;
}

std::int64_t Duffing::preferred_batch(Device device) const {
  if (device == Device::kCpu) return System::preferred_batch(device);
  TrajectoryInfo info = describe();
  info.members = 1 << 16;  // a thread each
  return members_within(info, 256 << 20);
}

DuffingModel Duffing::model() const {
  return {damping, stiffness,    inner_dt, noise * std::sqrt(inner_dt), std::sqrt(initial_variance),
          stored,  inner_steps()};
}

void Duffing::simulate_cpu(const SimulationBatch& batch) {
  const DuffingModel path = model();
  parallel_for(batch.count, [&](std::int64_t i) {
    const std::int64_t member = batch.first + i;
    duffing_path(path, batch.seed, static_cast<std::uint64_t>(member),
                 static_cast<std::uint64_t>(member / batch.branches),
                 batch.states.data() + i * stored * 2);
  });
}

#ifdef SLIFT_WITH_CUDA
void Duffing::simulate_cuda(const SimulationBatch& batch) {
  cuda::simulate_duffing(model(), batch.seed, batch.first, batch.branches, batch.states);
}
#endif

}  // namespace slift
