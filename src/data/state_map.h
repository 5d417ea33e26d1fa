// What is kept of every state of a trajectory: all of it, some fields, or numbers computed from it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/trajectories.h"

namespace slift {

struct StateMap {
  std::vector<std::int64_t> shape;  // of what is kept: {n} or {C, H, W}
  std::vector<std::string> fields;  // names of its components or channels; may be empty
  std::string record;               // JSON that says what the numbers are; empty for plain states
  // state [state_size()] -> kept [size()]. Must not throw; many threads may call it at once.
  std::function<void(std::span<const float> state, std::span<float> kept)> apply;

  std::int64_t size() const;  // numbers kept of one state
};

// The whole state.
StateMap keep_all(const TrajectoryInfo& info);

// The components or channels `names`, in that order. UserError with the known names if one is none.
StateMap keep_fields(const TrajectoryInfo& info, const std::vector<std::string>& names);

}  // namespace slift
