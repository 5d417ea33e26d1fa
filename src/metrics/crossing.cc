#include "metrics/crossing.h"

#include <algorithm>

namespace slift {

std::vector<std::int64_t> border_cells(std::int64_t height, std::int64_t width) {
  std::vector<std::int64_t> cells;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (y == 0 || x == 0 || y + 1 == height || x + 1 == width) cells.push_back(y * width + x);
    }
  }
  return cells;
}

std::vector<std::int64_t> corner_cells(std::int64_t height, std::int64_t width, std::int64_t size) {
  std::vector<std::int64_t> cells;
  for (std::int64_t y = std::max<std::int64_t>(0, height - size); y < height; ++y) {
    for (std::int64_t x = std::max<std::int64_t>(0, width - size); x < width; ++x) {
      cells.push_back(y * width + x);
    }
  }
  return cells;
}

std::optional<CrossingRule> paper_crossing_rule(const TrajectoryInfo& info) {
  if (info.is_vector()) return std::nullopt;
  const std::int64_t height = info.state_shape[1], width = info.state_shape[2];
  if (info.system == "wave") return CrossingRule{border_cells(height, width)};
  if (info.system == "flow") return CrossingRule{corner_cells(height, width, 8)};
  return std::nullopt;
}

std::optional<double> first_crossing(std::span<const float> trajectory, const TrajectoryInfo& info,
                                     const CrossingRule& rule) {
  for (std::int64_t t = 0; t < info.steps; ++t) {
    const float* state = trajectory.data() + t * info.state_size();
    for (const std::int64_t cell : rule.cells) {
      if (static_cast<double>(state[cell]) > rule.threshold) {
        return static_cast<double>(t) /
               static_cast<double>(std::max<std::int64_t>(info.steps - 1, 1));
      }
    }
  }
  return std::nullopt;
}

}  // namespace slift
