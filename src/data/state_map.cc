#include "data/state_map.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/errors.h"

namespace slift {

std::int64_t StateMap::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

StateMap keep_all(const TrajectoryInfo& info) {
  return {info.state_shape, info.fields, "",
          [](std::span<const float> state, std::span<float> kept) {
            std::copy(state.begin(), state.end(), kept.begin());
          }};
}

StateMap keep_fields(const TrajectoryInfo& info, const std::vector<std::string>& names) {
  const std::vector<std::string> known = info.field_names();
  std::vector<std::size_t> channels;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    require(found != known.end(), "--fields: unknown field {}; there are {}", name,
            fmt::join(known, ", "));
    channels.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  StateMap map;
  map.shape = info.state_shape;
  map.shape[0] = static_cast<std::int64_t>(names.size());
  map.fields = names;
  const auto size = static_cast<std::size_t>(info.state_size() / info.channels());
  map.apply = [channels, size](std::span<const float> state, std::span<float> kept) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      std::ranges::copy(state.subspan(channels[i] * size, size), kept.subspan(i * size).begin());
    }
  };
  return map;
}

}  // namespace slift
