#include "metrics/quantiles.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace slift {

namespace {

// `value_at(j)`: the point at place j = 0, 1, .. count - 1.
template <typename ValueAt>
std::vector<double> interpolate_quantiles(double count, const ValueAt& value_at,
                                          std::span<const double> levels) {
  if (count < 1) throw std::logic_error("quantiles: empty sample");
  std::vector<double> values;
  for (const double level : levels) {
    if (!(level >= 0 && level <= 1)) throw std::logic_error("quantiles: level outside [0, 1]");
    const double place = (count - 1) * level, before = std::floor(place);
    const double low = value_at(before), high = value_at(std::min(before + 1, count - 1));
    values.push_back(low + (place - before) * (high - low));
  }
  return values;
}

}  // namespace

std::vector<double> quantiles(std::span<const float> sample, std::span<const double> levels) {
  return interpolate_quantiles(
      static_cast<double>(sample.size()),
      [&](double place) { return static_cast<double>(sample[static_cast<std::size_t>(place)]); },
      levels);
}

std::vector<double> quantiles(std::span<const float> sample, std::span<const float> weights,
                              std::span<const double> levels) {
  if (weights.size() != sample.size()) throw std::logic_error("quantiles: not one weight a point");
  std::vector<double> up_to(weights.size());  // how many places the points up to each one take
  double count = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) up_to[i] = count += weights[i];
  return interpolate_quantiles(
      count,
      [&](double place) {
        const auto found = std::upper_bound(up_to.begin(), up_to.end(), place);
        return static_cast<double>(sample[static_cast<std::size_t>(found - up_to.begin())]);
      },
      levels);
}

}  // namespace slift
