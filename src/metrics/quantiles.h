// Quantiles of a sample.
//
// The quantile at level p of x_0 <= .. <= x_{n-1} is the value at place h = (n - 1) p, linear
// between neighbours: x_j + (h - j) (x_{j+1} - x_j), j = floor h. That is numpy.quantile's default,
// type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", Am. Stat. 50, 1996.
#pragma once

#include <span>
#include <vector>

namespace slift {

// One value for each level in [0, 1], in their order. The sample is ascending and not empty.
std::vector<double> quantiles(std::span<const float> sample, std::span<const double> levels);

}  // namespace slift
