#include "metrics/spread_skill.h"

#include <cmath>
#include <stdexcept>

#include "metrics/weighted_points.h"

namespace slift {

namespace {

double mean_of_points(const WeightedPoints& points) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) sum += points.weight(i) * points.values[i];
  return sum / points.count;
}

double squares_about(double centre, const WeightedPoints& points) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double d = points.values[i] - centre;
    sum += points.weight(i) * d * d;
  }
  return sum;
}

}  // namespace

void SpreadSkill::add(std::span<const float> ensemble, std::span<const float> verifications) {
  add_group(WeightedPoints(ensemble), WeightedPoints(verifications));
}

void SpreadSkill::add(std::span<const float> ensemble, std::span<const float> ensemble_weights,
                      std::span<const float> verifications,
                      std::span<const float> verification_weights) {
  add_group(WeightedPoints(ensemble, ensemble_weights),
            WeightedPoints(verifications, verification_weights));
}

void SpreadSkill::add_group(const WeightedPoints& ensemble, const WeightedPoints& verifications) {
  const double n = ensemble.count;
  if (n < 2) throw std::logic_error("SpreadSkill: fewer than two members");
  if (verifications.count < 1) throw std::logic_error("SpreadSkill: no verification");
  const double mean = mean_of_points(ensemble);
  spread_squares_ += (n + 1) / n * squares_about(mean, ensemble) / (n - 1);
  error_squares_ += squares_about(mean, verifications) / verifications.count;
  ++groups_;
}

double SpreadSkill::spread() const {
  return std::sqrt(spread_squares_ / static_cast<double>(groups_));
}

double SpreadSkill::error() const {
  return std::sqrt(error_squares_ / static_cast<double>(groups_));
}

}  // namespace slift
