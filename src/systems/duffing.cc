#include "systems/duffing.h"

#include <cmath>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/random.h"

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

void Duffing::simulate_cpu(const SimulationBatch& batch) {
  const std::int64_t inner = inner_steps();
  const double kick = noise * std::sqrt(inner_dt), spread = std::sqrt(initial_variance);
  parallel_for(batch.count, [&](std::int64_t i) {
    const auto index = static_cast<std::uint64_t>(batch.first + i);
    float start[2];
    fill_normal({batch.seed, Purpose::kInitialState, index, 0}, start);
    std::vector<float> normals(static_cast<std::size_t>(inner * (stored - 1)));
    fill_normal({batch.seed, Purpose::kSystemNoise, index, 0}, normals);
    double x = spread * start[0], v = 10 + spread * start[1];
    float* to = batch.states.data() + i * stored * 2;
    const float* normal = normals.data();
    for (std::int64_t t = 0;; ++t) {
      *to++ = static_cast<float>(x);
      *to++ = static_cast<float>(v);
      if (t + 1 == stored) break;
      for (std::int64_t s = 0; s < inner; ++s) {
        const double force = -damping * v + x - stiffness * x * x * x;
        const double x_next = x + inner_dt * v;
        v += inner_dt * force + kick * static_cast<double>(*normal++);
        x = x_next;
      }
    }
  });
}

}  // namespace slift
