// A double as float; beyond float's range, the largest there is. A member that diverged stays far
// off that way, and does not become infinite, which no score can compare.
#pragma once

#include <algorithm>
#include <limits>

namespace slift {

inline float saturated(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

}  // namespace slift
