// Wasserstein-2 distances between finite samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slift {

// Squared W2 between two one-dimensional samples, exact for unequal counts: the integral over u in
// [0, 1] of the squared difference of the quantile functions. Both ascending and not empty.
double w2_squared_sorted(std::span<const float> a, std::span<const float> b);

// `count` unit vectors in R^dim, row-major; fixed for given arguments. In the plane they are evenly
// spaced, elsewhere normalised Gaussians; in one dimension there is one.
std::vector<float> slicing_directions(std::int64_t dim, std::int64_t count);

// The projection of each of `points` [n, dim] on `direction` [dim].
std::vector<float> project(std::span<const float> points, std::int64_t dim,
                           std::span<const float> direction);

// The indices of `values` from the smallest to the largest, equal ones in the order they have.
std::vector<std::int32_t> ascending_order(std::span<const float> values);

// Sliced W2: root of the mean over `directions` of the squared W2 of the projections.
double sliced_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim,
                 std::span<const float> directions);

// Exact W2 between two equally large point sets [n, dim] by optimal assignment, O(n^3).
double exact_w2(std::span<const float> a, std::span<const float> b, std::int64_t dim);

}  // namespace slift
