// Points that stand as often as their weights, whole numbers, say. A bootstrap resample is the
// sample itself with other weights: nothing is copied or sorted again.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

namespace slift {

// A view: the values and weights must outlive it.
struct WeightedPoints {
  explicit WeightedPoints(std::span<const float> points)
      : values(points), count(static_cast<double>(points.size())) {}

  WeightedPoints(std::span<const float> points, std::span<const float> point_weights)
      : values(points), weights(point_weights) {
    if (weights.size() != values.size()) throw std::logic_error("not one weight for each point");
    for (const float w : weights) count += w;
  }

  std::size_t size() const { return values.size(); }
  double weight(std::size_t i) const { return weights.empty() ? 1.0 : weights[i]; }

  std::span<const float> values;
  std::span<const float> weights;  // empty: all are 1
  double count = 0;                // the sum of the weights
};

}  // namespace slift
