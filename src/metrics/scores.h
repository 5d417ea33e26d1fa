// The scores of an evaluation: which number each makes of two sets of members (scoring.h).
// Of groups that share their start, W2 is the mean over groups; the skill scores add them up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/scoring.h"

namespace slift {

// Sliced W2 of whole vectors. Replicates use every `directions / 8`-th direction.
Score sliced_w2_score(const Comparison& comparison, std::int64_t directions);

// Exact W2 of the vectors of `points` members at `times` steps, spread evenly. Only one cut and 20
// replicates are computed: an assignment is expensive.
Score exact_w2_score(const Comparison& comparison, std::int64_t points, std::int64_t times);

// W2 of one column.
Score w2_score(const Comparison& comparison, std::int64_t column);

// W2 of the times at which quantity number `index` first crosses its threshold; never crossing
// counts as time 1. Details: `never_generated`, `never_truth`, the shares that never do.
Score crossing_score(const Comparison& comparison, std::int64_t index);

// Means over `columns` of the fair CRPS (crps.h).
Score crps_score(const Comparison& comparison, const std::vector<std::int64_t>& columns);

// The spread-skill ratio (spread_skill.h) over `columns` and steps, each column in units of its own
// deviation in the truth; columns that are constant there take no part. 1 is right, below 1 the
// ensemble spreads too little.
Score spread_skill_score(const Comparison& comparison, const std::vector<std::int64_t>& columns);

// How uneven the rank histogram over `columns` is (rank_histogram.h), without the steps at which a
// column's deviation in the truth is below 1e-3 of that over all steps. Details: `counts`, its bars
// over all steps, in the first cut.
Score rank_score(const Comparison& comparison, const std::vector<std::int64_t>& columns);

// The distance of mean radial spectra (radial_spectrum.h), mean over channels; fields only.
Score spectrum_score(const Comparison& comparison);

}  // namespace slift
