#include "metrics/quantiles.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace slift {

std::vector<double> quantiles(std::span<const float> sample, std::span<const double> levels) {
  if (sample.empty()) throw std::logic_error("quantiles: empty sample");
  const std::size_t last = sample.size() - 1;
  std::vector<double> values;
  for (const double level : levels) {
    if (!(level >= 0 && level <= 1)) throw std::logic_error("quantiles: level outside [0, 1]");
    const double place = static_cast<double>(last) * level;
    const auto before = static_cast<std::size_t>(place);
    const double low = sample[before], high = sample[std::min(before + 1, last)];
    values.push_back(low + (place - static_cast<double>(before)) * (high - low));
  }
  return values;
}

}  // namespace slift
