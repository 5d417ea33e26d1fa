// The Duffing oscillator on CUDA, one thread a trajectory.
#pragma once

#include <cstdint>
#include <span>

#include "systems/duffing_path.h"

namespace slift::cuda {

// Trajectories first, first + 1, ... of a seed, each `branches` of them from one start, into
// `states` (host memory), [count, stored, 2]; the same bits as duffing_path() on the CPU. Throws
// std::runtime_error if CUDA fails.
void simulate_duffing(const DuffingModel& model, std::uint64_t seed, std::int64_t first,
                      std::int64_t branches, std::span<float> states);

}  // namespace slift::cuda
