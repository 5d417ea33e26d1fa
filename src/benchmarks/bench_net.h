// The network a bench runs: a UNet with random weights, of any size, on one device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/ceilings.h"
#include "nets/config.h"
#include "tensor/kernel_profile.h"
#include "tensor/torch_compat.h"

namespace slift {

struct BenchNet {
  std::int64_t size = 128;  // fields are size x size
  std::int64_t channels = 3;
  std::vector<std::int64_t> widths = {128, 256, 512};
  std::int64_t window = 3;
  std::int64_t label_dimension = 256;
  std::string padding = "zeros";
  std::int64_t batch = 64;
  std::string device = "cpu";
  // "fp32", "tf32", "bf16", for rollout also "fp8"; empty: bf16 on a GPU, fp32 on the CPU.
  std::string precision;
  bool kernels = false;  // also list the GPU kernels of one step

  NetConfig config() const;
  std::vector<std::int64_t> state_shape() const { return {channels, size, size}; }
};

// What the results of all benches of a network have.
struct BenchResult {
  std::string precision;  // the one that was used
  std::int64_t parameters = 0;
  double flops_per_frame = 0;    // of one evaluation for one member
  double flops_per_second = 0;   // reached
  std::int64_t peak_memory = 0;  // bytes
  Ceilings ceilings;             // in the same precision, for fp8 in bf16, after the bench
  std::vector<KernelTime> kernels;
};

// UserError if the device cannot do what is asked for; call it before anything that takes time.
void check_kernel_profile(const BenchNet& net, const at::Device& device);
std::string resolve_precision(const std::string& asked, const at::Device& device);
// Of the numbers a network computes with, for fp8 of most of them.
at::ScalarType compute_type(const std::string& precision);

}  // namespace slift
