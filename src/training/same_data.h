// Whether a run that is resumed still has the data it was started with.
#pragma once

#include <string>

#include "methods/transition_model.h"

namespace slift {

// `started` is the spec in a checkpoint, `now` that of the model built on the data there are now.
// Throws UserError naming `run` and what differs: members, steps, seed, shape of the states,
// system, boundary, time step, fields, or mean and deviations (the normaliser). Paths may differ:
// the config has them.
void require_same_data(const ModelSpec& started, const ModelSpec& now, const std::string& run);

}  // namespace slift
