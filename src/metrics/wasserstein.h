// Wasserstein-2 distances between finite samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slift {

// Squared W2 between two one-dimensional samples, exact for unequal counts: the integral over u in
// [0, 1] of the squared difference of the quantile functions. Both ascending and not empty.
double w2_squared_sorted(std::span<const float> a, std::span<const float> b);

// The same for weighted samples; the weights of each side sum to any positive number.
double w2_squared_sorted(std::span<const float> a, std::span<const float> weight_a,
                         std::span<const float> b, std::span<const float> weight_b);

// `count` unit vectors in R^dim, row-major; fixed for given arguments. In the plane they are evenly
// spaced, elsewhere normalised Gaussians; in one dimension there is one.
std::vector<float> slicing_directions(std::int64_t dim, std::int64_t count);

// Projections of `points` [n, dim] on one direction, ascending; with `order`, also where each
// came from.
std::vector<float> sorted_projection(std::span<const float> points, std::int64_t dim,
                                     std::span<const float> direction,
                                     std::vector<std::int32_t>* order = nullptr);

// Sliced W2: root of the mean over `directions` of the squared W2 of the projections.
double sliced_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                 std::span<const float> directions);

// Exact W2 between two equally large point sets [n, dim] by optimal assignment, O(n^3).
double exact_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim);

}  // namespace slift
