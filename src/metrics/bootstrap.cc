#include "metrics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/random.h"

namespace slift {

void to_json(nlohmann::json& json, const Interval& interval) {
  json = nlohmann::json::array({interval.low, interval.high});
}

std::vector<float> resample_counts(std::int64_t n, std::uint64_t set, std::uint32_t replicate) {
  std::vector<float> draws(static_cast<std::size_t>(n)), counts(draws.size(), 0);
  fill_uniform({0, Purpose::kBootstrap, set, replicate}, draws);
  for (const float u : draws) {
    const auto pick = static_cast<std::int64_t>(static_cast<double>(u) * static_cast<double>(n));
    counts[static_cast<std::size_t>(std::min(pick, n - 1))] += 1;
  }
  return counts;
}

Interval interval_around(double estimate, std::span<const double> replicates) {
  const double mean = std::accumulate(replicates.begin(), replicates.end(), 0.0) /
                      static_cast<double>(replicates.size());
  double squares = 0;
  for (const double v : replicates) squares += (v - mean) * (v - mean);
  const double reach = 1.96 * std::sqrt(squares / static_cast<double>(replicates.size() - 1));
  return {estimate - reach, estimate + reach};
}

}  // namespace slift
