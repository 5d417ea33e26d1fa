// Scales that bring a data set's states to order one. Per component (vectors) or channel (fields).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/trajectories.h"

namespace slift {

struct Normaliser {
  std::vector<float> mean, std;  // of the states
  std::vector<float> delta_std;  // of the one-step differences x_{t+1} - x_t

  nlohmann::json to_json() const;
  static Normaliser from_json(const nlohmann::json& object);  // throws nlohmann::json::exception
};

// One streaming pass over the first `members` trajectories. A constant channel gets scale 1.
// Throws UserError naming file, trajectory and step if a value is not finite.
Normaliser fit_normaliser(const TrajectoryReader& reader, std::int64_t members);

struct NonFinite {
  std::int64_t trajectory, step;
  float value;
};

// The first value that is not finite, if any, in states [count, steps, state] of the trajectories
// first .. first+count-1.
std::optional<NonFinite> find_non_finite(std::span<const float> states, const TrajectoryInfo& info,
                                         std::int64_t first);

// Throws UserError naming `source`, trajectory and step of the first non-finite value, if any, in
// states [count, steps, state].
void require_finite(std::span<const float> states, const TrajectoryInfo& info, std::int64_t first,
                    const std::string& source);

}  // namespace slift
