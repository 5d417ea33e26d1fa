// Bootstrap intervals (Efron 1979): how much would a value vary, had other members been drawn?
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

namespace slift {

struct Interval {
  double low = 0, high = 0;
};
void to_json(nlohmann::json& json, const Interval& interval);  // [low, high]

// How often each of n members is drawn in a resample with replacement: n draws in all. Fixed for
// given arguments; resamples of different `set` or `replicate` are independent.
std::vector<float> resample_counts(std::int64_t n, std::uint64_t set, std::uint32_t replicate);

// 95 %: the estimate +- 1.96 standard deviations of its replicates, of which there are at least 2.
Interval interval_around(double estimate, std::span<const double> replicates);

}  // namespace slift
