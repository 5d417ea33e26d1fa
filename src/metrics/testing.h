// Samples for the tests of this folder; for *_test.cc only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/random.h"

namespace slift {

using Values = std::vector<float>;

// n draws of N(mean, scale^2); another `index`, other draws.
inline Values normals(std::size_t n, std::uint64_t index, float mean = 0, float scale = 1) {
  Values x(n);
  fill_normal({11, Purpose::kBootstrap, index, 0}, x);
  for (float& v : x) v = mean + scale * v;
  return x;
}

// Each point `copies` times.
inline Values repeated(const Values& x, std::size_t copies) {
  Values all;
  for (const float v : x) all.insert(all.end(), copies, v);
  return all;
}

inline Values sorted(Values x) {
  std::sort(x.begin(), x.end());
  return x;
}

// A mean with its standard error.
class SampleMean {
 public:
  void add(double x) { sum_ += x, squares_ += x * x, ++count_; }
  double value() const { return sum_ / count_; }
  double error() const { return std::sqrt((squares_ / count_ - value() * value()) / (count_ - 1)); }

 private:
  double sum_ = 0, squares_ = 0, count_ = 0;
};

}  // namespace slift
