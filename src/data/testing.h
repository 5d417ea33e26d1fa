// What the tests of trajectory data share; for *_test.cc only.
#pragma once

#include <utility>
#include <vector>

#include "data/trajectories.h"

namespace slift {

inline TrajectoryInfo make_info(std::int64_t members, std::int64_t steps,
                                std::vector<std::int64_t> state_shape) {
  TrajectoryInfo info;
  info.members = members;
  info.steps = steps;
  info.state_shape = std::move(state_shape);
  return info;
}

}  // namespace slift
