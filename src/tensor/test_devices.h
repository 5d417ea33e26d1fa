// Devices that tests with one body per device run on; for *_test.cc only.
#pragma once

#include <torch/cuda.h>

#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// The CPU always; CUDA only where this build and this machine have it.
inline std::vector<at::Device> test_devices() {
  std::vector<at::Device> found = {at::kCPU};
#ifdef SLIFT_WITH_CUDA
  if (torch::cuda::is_available()) found.emplace_back(at::kCUDA, 0);
#endif
  return found;
}

}  // namespace slift
