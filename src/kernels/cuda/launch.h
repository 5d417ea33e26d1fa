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

inline cudaLaunchConfig_t launch_config(dim3 blocks, int threads, int shared_bytes, void* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = static_cast<unsigned>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  return config;
}

// Enqueues a kernel on `stream` (a cudaStream_t); to be followed by check_launch().
template <typename... Parameters, typename... Args>
void launch_kernel(void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes,
                   void* stream, const Args&... args) {
  const cudaLaunchConfig_t config = launch_config(blocks, threads, shared_bytes, stream);
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...);
}

// The same for one that may begin early.
template <typename... Parameters, typename... Args>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes,
                  void* stream, const Args&... args) {
  cudaLaunchAttribute early = early_launch();
  cudaLaunchConfig_t config = launch_config(blocks, threads, shared_bytes, stream);
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(args)...);
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
