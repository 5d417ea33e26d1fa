// The energy score (Gneiting and Raftery 2007) of generated trajectories, and which way each state
// should move to lower it.
//
// For an ensemble g_1 .. g_G and truths y_1 .. y_Y it is
//   mean_ij |g_i - y_j| - 1/2 mean_(i /= k) |g_i - g_k|,
// least in expectation where both have one law. Here it is taken three times: of the states of each
// step; of whole trajectories, so that steps must fit together; and of each component or cell
// alone, where it is the CRPS and sees what is small beside the whole, such as noise in a region at
// rest. The first and the last are means over steps and components; the sum of the three is the
// score.
#pragma once

#include "tensor/torch_compat.h"

namespace slift {

struct EnergyScore {
  Tensor value;     // scalar
  Tensor gradient;  // [T, G, n], of the value by the generated states
};

// generated [T, G, n] and truth [T, Y, n], G at least 2, float32 on one device; scale [T],
// positive: differences at a step are measured in it, by their root mean square. Depends on no
// number of threads.
EnergyScore energy_score(const Tensor& generated, const Tensor& truth, const Tensor& scale);

}  // namespace slift
