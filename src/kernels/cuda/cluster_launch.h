// How the kernels that hold a group in shared memory (norm_cluster.h) are launched.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "kernels/cuda/norm_cluster.h"

namespace slift::kernels::cuda {

// Enqueues kKernel(args...) for `clusters` clusters of the plan's blocks, with its tiles as dynamic
// shared memory. Once per kernel and device asks for more shared memory than the 48 KiB, and for
// more blocks in a cluster than the 8, that need no permission. To be followed by check_launch().
template <auto kKernel, typename... Args>
void launch_clusters(std::int64_t clusters, const ClusterPlan& plan, cudaStream_t stream,
                     const Args&... args) {
  static std::atomic<std::uint64_t> allowed_devices{0};
  int device = 0;
  cudaGetDevice(&device);
  const std::uint64_t bit = std::uint64_t{1} << device;
  if ((allowed_devices.load() & bit) == 0) {
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kClusterBytes);
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    allowed_devices.fetch_or(bit);
  }
  const auto blocks = static_cast<unsigned>(plan.blocks);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(clusters) * blocks;
  config.blockDim = kClusterThreads;
  config.dynamicSmemBytes = plan.tile_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kKernel, args...);
}

}  // namespace slift::kernels::cuda
