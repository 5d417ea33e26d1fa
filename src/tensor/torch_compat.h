// The only place that knows LibTorch versions differ: 1.13 (Debian 12) to 2.11+ (CUDA 13).
#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <string>

#define SLIFT_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||        \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace slift {

using at::Tensor;

// Returns to callers in one call what LibTorch was built against.
inline std::string torch_version() { return TORCH_VERSION; }

}  // namespace slift
