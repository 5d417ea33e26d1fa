#include "metrics/spread_skill.h"

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace slift {

namespace {

double squares_about(double centre, std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += (v - centre) * (v - centre);
  return sum;
}

}  // namespace

void SpreadSkill::add(std::span<const float> ensemble, std::span<const float> verifications) {
  if (ensemble.size() < 2) throw std::logic_error("SpreadSkill: fewer than two members");
  if (verifications.empty()) throw std::logic_error("SpreadSkill: no verification");
  const auto n = static_cast<double>(ensemble.size());
  const double mean = std::accumulate(ensemble.begin(), ensemble.end(), 0.0) / n;
  spread_squares_ += (n + 1) / n * squares_about(mean, ensemble) / (n - 1);
  error_squares_ += squares_about(mean, verifications) / static_cast<double>(verifications.size());
  ++groups_;
}

void SpreadSkill::add(const SpreadSkill& other) {
  spread_squares_ += other.spread_squares_;
  error_squares_ += other.error_squares_;
  groups_ += other.groups_;
}

double SpreadSkill::spread() const {
  return std::sqrt(spread_squares_ / static_cast<double>(groups_));
}

double SpreadSkill::error() const {
  return std::sqrt(error_squares_ / static_cast<double>(groups_));
}

}  // namespace slift
