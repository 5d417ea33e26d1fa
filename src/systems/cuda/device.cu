#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "systems/cuda/device.h"

namespace slift::cuda {

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void check(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

void synchronise(const char* what) {
  cudaDeviceSynchronize();
  check(what);
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  cudaMalloc(&memory, bytes);
  check("device memory");
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
  check("copy to the device");
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
  check("copy from the device");
}

}  // namespace slift::cuda
