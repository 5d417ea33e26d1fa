// What the kernels that hold a group in shared memory (norm_cluster.h) share: who takes what, how
// the blocks of a cluster exchange their sums, and the launch.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "kernels/cuda/instructions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {

// What a cluster, a block and a thread take. Threads form `rows` rows of packs of N channels, a
// thread takes its pack of every `rows`-th cell of its block; threads beyond the last whole row
// have no cells. The first kHeld cells of a thread are in registers, the others in the tile.
template <int N, int kHeld>
struct ClusterPlace {
  // Tiles come in stages, so that the first can be added up while the others are on their way; of
  // four cells a thread where the tile is as large as plans make it.
  static constexpr int kStages = kHeld > 0 ? 3 : 4;

  __device__ ClusterPlace(const NormShape& shape, const ClusterPlan& plan)
      : rank(static_cast<int>(__clusterRelativeBlockRank())),
        thread(static_cast<int>(threadIdx.x)) {
    const auto divide = [](auto a, auto b) {  // of non-negative numbers, which is faster
      return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
    };
    width = divide(plan.channels, plan.groups);
    sample = static_cast<int>(blockIdx.y);
    first_group = divide(blockIdx.x, plan.blocks) * plan.groups;
    first_channel = first_group * width;
    all_cells = static_cast<int>(shape.cells());
    first_cell = min(rank * plan.cells, all_cells);
    cells = min(plan.cells, all_cells - first_cell);
    packs = plan.channels / N;
    rows = divide(kClusterThreads, packs);
    tile_cells = max(0, plan.cells - kHeld * rows);
    row = divide(thread, packs);
    pack = thread - row * packs;
    begin = row < rows ? row : cells;
    tile_begin = begin + kHeld * rows;
    stage_cells = divide(tile_cells + kStages * rows - 1, kStages * rows) * rows;
    group = divide(pack * N, width);
    channel = first_channel + pack * N;
  }

  // The thread's cells in the tile are tile_begin, tile_begin + rows, ...; those of the stages up
  // to this one lie below.
  __device__ int stage_end(int stage) const {
    return min(cells, tile_begin + (stage + 1) * stage_cells);
  }

  // Calls body(cell) for this thread's share of the block's cells at the edge of the field, which
  // are others than its own.
  template <typename Body>
  __device__ void for_each_edge(const Extent& extent, const Body& body) const {
    if (row >= rows) return;
    const auto first = static_cast<unsigned>(first_cell);
    const unsigned end = edges_before(extent, first + static_cast<unsigned>(cells));
#pragma unroll 1
    for (unsigned e = edges_before(extent, first) + static_cast<unsigned>(row); e < end;
         e += static_cast<unsigned>(rows)) {
      body(edge_cell(extent, e));
    }
  }

  // Of the cluster.
  int sample, all_cells, first_group, first_channel;
  int rank, width;  // its block's place in it, channels of a group
  // Of the block; cells count from its first.
  int first_cell, cells, tile_cells, packs, rows, stage_cells;
  // Of the thread.
  int thread, pack, row, begin, tile_begin;
  int group;    // counted from the cluster's first
  int channel;  // the first of its pack
};

// Hands out a block's dynamic shared memory, 16 bytes at a time.
class SharedMemory {
 public:
  __device__ explicit SharedMemory(uint4* first) : next_(first) {}
  template <typename Item>
  __device__ Item* take(int count) {
    auto* const items = reinterpret_cast<Item*>(next_);
    next_ += (count * static_cast<int>(sizeof(Item)) + 15) / 16;
    return items;
  }

 private:
  uint4* next_;
};

template <int N, typename T>
__device__ Pack<T, N> load_pack(const T* from) {
  static_assert(sizeof(Pack<T, N>) == 16);
  Pack<T, N> pack;
  reinterpret_cast<uint4&>(pack) = __ldg(reinterpret_cast<const uint4*>(from));
  return pack;
}

// N numbers from shared memory, 16 bytes at a time.
template <int N>
__device__ void load_shared(const float* from, float (&to)[N]) {
  for (int i = 0; i < N; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    to[i] = four.x;
    to[i + 1] = four.y;
    to[i + 2] = four.z;
    to[i + 3] = four.w;
  }
}

// How the blocks of a cluster tell each other their sums: each stores numbers in the others' shared
// memory, and a barrier there counts the bytes that have come. So nobody reads from afar, and a
// block may end as soon as it has all it waits for. A block that is alone just stores them.
class Inbox {
 public:
  // `arrived` is in shared memory.
  __device__ Inbox(Barrier& arrived, int blocks) : arrived_(arrived), alone_(blocks == 1) {}

  // By all threads, at the start. Nobody waits.
  __device__ void open() const {
    if (alone_) return;
    if (threadIdx.x == 0) {
      arrived_.init(1);
      publish_barriers();
    }
    arrive_at_cluster();
  }

  // By all threads, before the first send(): waits until all blocks have opened theirs. `bytes`
  // will come to this one, or are coming.
  __device__ void meet(unsigned bytes) const {
    if (alone_) return;
    wait_for_cluster();
    if (threadIdx.x == 0) arrived_.arrive_and_expect(bytes);
  }

  // Stores `value`, a float2 or float4, in block `rank` where `to` is in this one.
  template <typename Numbers>
  __device__ void send(Numbers value, Numbers* to, int rank) const {
    if (alone_) {
      *to = value;
    } else {
      send_to_block(static_cast<unsigned>(rank), shared_address(to), arrived_, value);
    }
  }

  // By all threads: waits until all bytes have come.
  __device__ void await() const {
    if (alone_) {
      __syncthreads();
    } else {
      arrived_.wait_for_cluster(0);
    }
  }

 private:
  Barrier& arrived_;
  bool alone_;
};

// The sum of `count` pairs by one warp, for all its lanes.
inline __device__ float2 sum_by_warp(const float2* parts, int count) {
  float2 sum = make_float2(0, 0);
  for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
    sum.x += parts[i].x;
    sum.y += parts[i].y;
  }
  return make_float2(sum_over_lanes(sum.x), sum_over_lanes(sum.y));
}

// The sum of what the blocks have sent, by one thread.
inline __device__ float2 sum_of_blocks(const float2* parts, int blocks) {
  float2 sum = make_float2(0, 0);
#pragma unroll 4
  for (int r = 0; r < blocks; ++r) {
    sum.x += parts[r].x;
    sum.y += parts[r].y;
  }
  return sum;
}

// Enqueues kKernel(args...), which may begin early, for the plan's clusters of all samples, with
// its shared memory. Once per kernel and device asks for more shared memory than the 48 KiB, and
// for more blocks in a cluster than the 8, that need no permission. To be followed by
// check_launch().
template <auto kKernel, typename... Args>
void launch_clusters(const NormShape& shape, const ClusterPlan& plan, cudaStream_t stream,
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
  cudaLaunchAttribute attributes[2] = {{}, early_launch()};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config =
      launch_config({static_cast<unsigned>(shape.groups / plan.groups) * blocks,
                     static_cast<unsigned>(shape.batch)},
                    kClusterThreads, static_cast<int>(plan.shared_bytes), stream);
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kKernel, args...);
}

}  // namespace slift::kernels::cuda
