#include "metrics/rank_histogram.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace slift {

RankHistogram::RankHistogram(std::int64_t bins) {
  if (bins < 1) throw std::logic_error("RankHistogram: no bins");
  counts_.resize(static_cast<std::size_t>(bins), 0);
}

void RankHistogram::add(std::span<const float> ensemble, std::span<const float> verifications,
                        std::span<const float> uniforms) {
  if (ensemble.empty()) throw std::logic_error("RankHistogram: empty ensemble");
  if (uniforms.size() != verifications.size()) {
    throw std::logic_error("RankHistogram: not one uniform for each verification");
  }
  const auto members = static_cast<double>(ensemble.size());
  const auto bins = static_cast<double>(counts_.size());
  for (std::size_t k = 0; k < verifications.size(); ++k) {
    const auto [first, last] = std::equal_range(ensemble.begin(), ensemble.end(), verifications[k]);
    const auto below = static_cast<double>(first - ensemble.begin());
    const auto ties = static_cast<double>(last - first);
    const double place = (below + uniforms[k] * (1 + ties)) / (members + 1);
    const auto bin = static_cast<std::size_t>(place * bins);
    ++counts_[std::min(bin, counts_.size() - 1)];  // place may be 1
  }
  const auto verified = static_cast<double>(verifications.size());
  total_ += static_cast<std::int64_t>(verifications.size());
  effective_ += verified * (1 + (verified - 1) / (members + 2));
}

double RankHistogram::unevenness() const {
  const auto bins = static_cast<double>(counts_.size());
  double squares = 0;
  for (const std::int64_t count : counts_) {
    const double off = static_cast<double>(count) * bins / static_cast<double>(total_) - 1;
    squares += off * off;
  }
  return std::sqrt(squares / bins);
}

double RankHistogram::expected_unevenness() const {
  const auto bins = static_cast<double>(counts_.size());
  return std::sqrt((bins - 1) * effective_) / static_cast<double>(total_);
}

}  // namespace slift
