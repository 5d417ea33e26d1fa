// One path of the Duffing oscillator, for the CPU and for CUDA: the same bits on both when built
// without contraction (-fmad=false, -ffp-contract=off).
#pragma once

#include <cstdint>

#include "core/random.h"

namespace slift {

// The numbers of duffing.h, ready for the inner loop.
struct DuffingModel {
  double damping, stiffness, inner_dt;
  double kick, spread;         // standard deviations of a step's noise and of x(0)
  std::int64_t stored, inner;  // stored states; steps from one to the next
};

// Writes trajectory `index` of a seed, from its start number `start`, to `states`, [stored, 2].
SLIFT_HD void duffing_path(const DuffingModel& model, std::uint64_t seed, std::uint64_t index,
                           std::uint64_t start, float* states) {
  const Stream noise = {seed, Purpose::kSystemNoise, index, 0};
  // Drawn many at a time: one after the other they would wait for the oscillator.
  constexpr std::uint32_t kAhead = 32;
  float normals[kAhead];
  stream_normals({seed, Purpose::kInitialState, start, 0}, 0, normals);
  double x = model.spread * normals[0], v = 10 + model.spread * normals[1];
  std::uint32_t step = 0;
  for (std::int64_t t = 0;; ++t) {
    states[2 * t] = static_cast<float>(x);
    states[2 * t + 1] = static_cast<float>(v);
    if (t + 1 == model.stored) return;
    for (std::int64_t s = 0; s < model.inner; ++s, ++step) {
      if (step % kAhead == 0) {
        for (std::uint32_t n = 0; n < kAhead; n += 4) {
          stream_normals(noise, (step + n) / 4, normals + n);
        }
      }
      const double force = -model.damping * v + x - model.stiffness * x * x * x;
      const double x_next = x + model.inner_dt * v;
      v += model.inner_dt * force + model.kick * static_cast<double>(normals[step % kAhead]);
      x = x_next;
    }
  }
}

}  // namespace slift
