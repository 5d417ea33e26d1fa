// Rolls a model out: initial states + fresh labels -> an ensemble of trajectories, streamed to
// disk.
//
// Member i is a function of (model, seed, its initial state, i) to the last bit, whatever the chunk
// size and thread count: the network always sees blocks of the same shape with member i in row
// i mod block, so every matrix product runs the same way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "data/trajectories.h"
#include "nets/transition_model.h"

namespace slift {

struct RolloutOptions {
  // Changes results.
  std::int64_t members = 1;
  std::int64_t steps = 1;  // network evaluations; steps + 1 states are stored
  std::uint64_t seed = 0;
  std::int64_t first_initial = 0;  // member i starts from trajectory (first_initial + i) mod M
  // Changes speed and memory only.
  std::int64_t chunk = 0;  // members in memory at a time; 0: what fits in 256 MiB
};

// Rolls members first .. first+count-1 out from `initial` [count, state] into `out`
// [count, steps + 1, state]. Throws std::runtime_error naming member and step if a state is no
// longer finite.
void roll_out_chunk(const TransitionModel& model, const RolloutOptions& options, std::int64_t first,
                    std::int64_t count, std::span<const float> initial, std::span<float> out);

// Rolls out from the first states of `initial`'s trajectories into the file `out`, with a progress
// line. On failure or interrupt nothing is left at `out`.
TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const std::filesystem::path& out);

}  // namespace slift
