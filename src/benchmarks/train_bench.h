// The speed of training: whole iterations of Trainer on data that fit in memory.
#pragma once

#include "benchmarks/bench_net.h"

namespace slift {

// Flops count three times the forward pass: gradients of inputs and of weights cost as much again.
struct TrainBench : BenchResult {
  double ms_per_iteration = 0;
  double startup_seconds = 0;  // from nothing, the device included, to the end of iteration 1
  double loss = 0;             // of the last iteration
};

// `iterations` in a row, `repeats` times, the median, after warming up. The data are smooth random
// fields in a temporary file, which is gone afterwards.
TrainBench bench_train(const BenchNet& net, std::int64_t iterations, std::int64_t repeats);

}  // namespace slift
