#include "data/normaliser.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace slift {

using nlohmann::json;

namespace {

// Sums of x - shift; a shift near the mean keeps the variance exact where it is small beside it.
struct Sums {
  double shift = 0, count = 0, total = 0, squares = 0;

  void add(double x) {
    count += 1;
    total += x - shift;
    squares += (x - shift) * (x - shift);
  }
  void merge(const Sums& part) {
    count += part.count;
    total += part.total;
    squares += part.squares;
  }
  float mean() const { return static_cast<float>(count > 0 ? shift + total / count : 0); }
  float scale() const {
    if (count == 0) return 1;
    const double offset = total / count;
    const double variance = squares / count - offset * offset;
    // Below rounding error of the sums, the channel is constant.
    return variance > 1e-14 * (squares / count) ? static_cast<float>(std::sqrt(variance)) : 1;
  }
};

}  // namespace

json Normaliser::to_json() const {
  return {{"mean", mean}, {"std", std}, {"delta_std", delta_std}};
}

Normaliser Normaliser::from_json(const json& object) {
  return {object.at("mean").get<std::vector<float>>(), object.at("std").get<std::vector<float>>(),
          object.at("delta_std").get<std::vector<float>>()};
}

std::optional<NonFinite> find_non_finite(std::span<const float> states, const TrajectoryInfo& info,
                                         std::int64_t first) {
  // x - x is 0 for finite x and NaN otherwise: one pass that vectorises, then the search.
  float sum = 0;
  for (const float x : states) sum += x - x;
  if (sum == 0) return std::nullopt;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (std::isfinite(states[i])) continue;
    const auto at = static_cast<std::int64_t>(i);
    return NonFinite{first + at / info.trajectory_size(),
                     at % info.trajectory_size() / info.state_size(), states[i]};
  }
  return std::nullopt;
}

void require_finite(std::span<const float> states, const TrajectoryInfo& info, std::int64_t first,
                    const std::string& source) {
  if (const auto bad = find_non_finite(states, info, first)) {
    fail("{}: values must be finite, got {} in trajectory {}, step {}", source, bad->value,
         bad->trajectory, bad->step);
  }
}

Normaliser fit_normaliser(const TrajectoryReader& reader, std::int64_t members) {
  const TrajectoryInfo& info = reader.info();
  const std::int64_t channels = info.channels();
  const std::int64_t cells = info.state_size() / channels;
  std::vector<Sums> state(static_cast<std::size_t>(channels)), delta = state;
  for_each_chunk(reader, members, [&](auto first, auto count, std::span<const float> x) {
    require_finite(x, info, first, reader.path());
    const std::int64_t size = info.state_size();
    for (std::int64_t s = 0; s < count * info.steps; ++s) {
      const float* now = x.data() + s * size;
      const bool has_next = s % info.steps + 1 < info.steps;
      for (std::int64_t c = 0; c < channels; ++c) {
        Sums& all_states = state[static_cast<std::size_t>(c)];
        if (first == 0 && s == 0) all_states.shift = now[c * cells];
        Sums here{.shift = all_states.shift}, step;
        for (std::int64_t i = c * cells; i < (c + 1) * cells; ++i) {
          here.add(now[i]);
          if (has_next) step.add(static_cast<double>(now[size + i]) - now[i]);
        }
        all_states.merge(here);
        delta[static_cast<std::size_t>(c)].merge(step);
      }
    }
  });
  Normaliser result;
  for (std::size_t c = 0; c < state.size(); ++c) {
    result.mean.push_back(state[c].mean());
    result.std.push_back(state[c].scale());
    result.delta_std.push_back(delta[c].scale());
  }
  return result;
}

}  // namespace slift
