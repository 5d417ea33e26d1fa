// The speed of the kernels that a step of the UNet consists of, each on its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/bench_net.h"

namespace slift {

struct KernelBenchRow {
  std::string name;   // what is computed
  std::string shape;  // of its output: "64 x 128 x 128 x 128", batch first
  double ms = 0;      // of one call
  double bytes = 0;   // each input read once and each output written once
  double flops = 0;   // 0 where memory is the limit
  double memory_rate() const { return 1e3 * bytes / ms; }   // bytes/s
  double compute_rate() const { return 1e3 * flops / ms; }  // FLOP/s
};

struct KernelBench {
  std::string precision;
  double copy = 0;                                   // bytes/s, as copy_ceiling()
  std::vector<std::pair<std::string, double>> gemm;  // precision, FLOP/s; the bench's own is first
  std::vector<KernelBenchRow> rows;
};

// At every level of the net: the 3 x 3 convolution with its two gradients, and norm_activation of
// one source with FiLM and of two sources without, forward and backward. Of `net`, channels,
// window, label_dimension and padding have no effect.
KernelBench bench_kernels(const BenchNet& net);

}  // namespace slift
