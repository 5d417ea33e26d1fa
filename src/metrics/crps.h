// The fair continuous ranked probability score of an ensemble.
//
//   CRPS = mean_k mean_i |x_i - y_k| - 1 / (2 n (n - 1)) sum_{i, j} |x_i - x_j|
//
// for members x_1 .. x_n and verifications y_k, in their unit; 0 is perfect, smaller is better. It
// is fair: an ensemble drawn from a distribution has that distribution's expected score, whatever
// n. So two ensembles of different sizes can be compared, and one drawn from the truth has the
// least expected score. A single score may be negative.
// Ferro, "Fair scores for ensemble forecasts", Q. J. R. Meteorol. Soc. 140, 2014.
#pragma once

#include <span>

namespace slift {

// Both ascending; at least two members and one verification, of each at most a million. O(n + m).
double fair_crps(std::span<const float> ensemble, std::span<const float> verifications);

}  // namespace slift
