// Loss and gradients of a batch on the CPU: shards of its rows, each on a thread of its own.
//
// A thread goes through forward and backward of a shard without meeting the others, where LibTorch
// would spread every single product and wait for the slowest thread each time. Shards depend on the
// batch alone and their gradients are added in their order, so the bits do not depend on threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// Rows of a shard of a batch of `rows` states: few enough to keep many threads busy, enough to be
// worth their calls.
std::int64_t rows_of_shard(std::int64_t rows, const std::vector<std::int64_t>& state_shape);

// Returns the mean over `rows` rows of a loss, and adds its gradients to .grad() of `params`.
// loss_of(first, count) is the mean over the rows first .. first+count-1, a function of all
// `params`; it is called by several threads at once.
Tensor backward_in_shards(const std::vector<Tensor>& params, std::int64_t rows, std::int64_t shard,
                          const std::function<Tensor(std::int64_t, std::int64_t)>& loss_of);

}  // namespace slift
