// First-crossing times: when does any watched cell of a field first exceed a threshold?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/trajectories.h"

namespace slift {

struct CrossingRule {
  std::vector<std::int64_t> cells;  // indices into a state
  double threshold = 0.05;
};

// The cells of the outermost rows and columns of an H x W field, each once.
std::vector<std::int64_t> border_cells(std::int64_t height, std::int64_t width);
// The last `size` rows of the last `size` columns.
std::vector<std::int64_t> corner_cells(std::int64_t height, std::int64_t width, std::int64_t size);

// What the paper watches: the border for `wave`, the 8 x 8 corner at the producer for `flow`, both
// above 0.05; nothing for other systems.
std::optional<CrossingRule> paper_crossing_rule(const TrajectoryInfo& info);

// The first step at which a watched cell of `trajectory` [steps, state] exceeds the threshold, with
// time normalised to [0, 1]; nothing if none ever does.
std::optional<double> first_crossing(std::span<const float> trajectory, const TrajectoryInfo& info,
                                     const CrossingRule& rule);

}  // namespace slift
