// What launches of CUDA kernels share.
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

// The attribute of a launch that lets a kernel take its place while the one before it in the stream
// still runs. It calls begin_after_previous() before it touches memory.
inline cudaLaunchAttribute early_launch() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

#ifdef __CUDACC__
// Lets the next kernel take its place, then waits until the previous one has ended and what it
// wrote can be read. All that came before that one has ended, too, for it has waited itself.
__device__ inline void begin_after_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}
#endif

}  // namespace slift::kernels::cuda
