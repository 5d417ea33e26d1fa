// The speed of rollout: steps of an ensemble, nothing read or written.
#pragma once

#include "benchmarks/bench_net.h"

namespace slift {

struct RolloutBench : BenchResult {
  double ms_per_step = 0;  // of `batch` members together
};

// `steps` steps in a row, `repeats` times, the median, after warming up.
RolloutBench bench_rollout(const BenchNet& net, std::int64_t steps, std::int64_t repeats);

}  // namespace slift
