// What every launch of a CUDA kernel is followed by.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace slift::kernels::cuda {

// Throws if a launch since the last call was refused; `what` begins the message. Does not wait.
inline void check_launch(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

}  // namespace slift::kernels::cuda
