// Devices that tests with one body per device run on; for *_test.cc only.
#pragma once

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <string>
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

// How tests call a device in their names.
inline std::string device_name(const at::Device& device) {
  return device.is_cuda() ? "cuda" : "cpu";
}

// The name of a test whose parameter is a device.
struct DeviceName {
  std::string operator()(const testing::TestParamInfo<at::Device>& test) const {
    return device_name(test.param);
  }
};

}  // namespace slift
