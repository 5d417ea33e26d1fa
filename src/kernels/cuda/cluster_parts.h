// What the kernels that hold a group in shared memory (norm_cluster.h) share: who takes what, and
// the launch.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {

// Tiles come in stages, so that the first can be added up while the others are on their way.
inline constexpr int kClusterStages = 4;

// What a cluster, a block and a thread take. Threads form `rows` rows of packs of N channels, a
// thread takes its pack of every `rows`-th cell of its block; threads beyond the last whole row
// have no cells.
template <int N>
struct ClusterPlace {
  __device__ ClusterPlace(const NormShape& shape, const ClusterPlan& plan, unsigned block_rank)
      : rank(static_cast<int>(block_rank)), thread(static_cast<int>(threadIdx.x)) {
    const auto divide = [](auto a, auto b) {  // of non-negative numbers, which is faster
      return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
    };
    const int bundles = divide(shape.groups, plan.groups);
    const int bundle = divide(blockIdx.x, plan.blocks);
    width = divide(plan.channels, plan.groups);
    sample = divide(bundle, bundles);
    first_group = (bundle - sample * bundles) * plan.groups;
    first_channel = first_group * width;
    const int all_cells = static_cast<int>(shape.cells());
    first_cell = min(rank * plan.cells, all_cells);
    cells = min(plan.cells, all_cells - first_cell);
    packs = plan.channels / N;
    rows = divide(kClusterThreads, packs);
    row = divide(thread, packs);
    pack = thread - row * packs;
    begin = row < rows ? row : cells;
    stage_cells = divide(cells + kClusterStages * rows - 1, kClusterStages * rows) * rows;
    group = divide(pack * N, width);
    channel = first_channel + pack * N;
  }

  // The thread's cells are begin, begin + rows, ...; those of the stages up to this one lie below.
  __device__ int stage_end(int stage) const {
    return min(cells, begin + (stage + 1) * stage_cells);
  }

  // Calls body(cell) for the block's cells at the edge of the field that fall to this thread, which
  // are others than its own.
  template <typename Body>
  __device__ void for_each_edge(const Extent& extent, const Body& body) const {
    if (row >= rows) return;
    cuda::for_each_edge(extent, 0, 1, static_cast<unsigned>(row), static_cast<unsigned>(rows),
                        [&](unsigned cell) {
                          const int i = static_cast<int>(cell) - first_cell;
                          if (i >= 0 && i < cells) body(cell);
                        });
  }

  // Of the cluster.
  int sample, first_group, first_channel;
  int rank, width;  // its block's place in it, channels of a group
  // Of the block; cells count from its first.
  int first_cell, cells, packs, rows, stage_cells;
  // Of the thread.
  int thread, pack, row, begin;
  int group;    // counted from the cluster's first
  int channel;  // the first of its pack
};

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
