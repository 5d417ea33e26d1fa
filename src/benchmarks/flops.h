// What a network computes, counted from its parameters.
#pragma once

#include "nets/backbone.h"

namespace slift {

// FLOP of one evaluation for one member: two for every multiply-add of its linear layers and
// convolutions; norms and activations are left out. Of the network as it is defined: kernels that
// get along with fewer gain speed, not FLOP. Knows the parts of Mlp and Unet by their names and
// throws std::logic_error for a convolution of another name.
double flops_per_evaluation(const Backbone& backbone);

}  // namespace slift
