// The forms of norm_activation() and its backward that read their fields once: a cluster of thread
// blocks holds all cells of some whole groups of a sample in shared memory, adds them up, exchanges
// the sums and maps. One launch. Includes nothing of CUDA, so that plans can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/kernels.h"

namespace slift::kernels::cuda {

inline constexpr int kClusterThreads = 256;       // of a block
inline constexpr int kClusterBlocksAtOnce = 3;    // on a multiprocessor, if their tiles leave room
inline constexpr int kMostClusterBlocks = 16;     // of Hopper
inline constexpr int kClusterGroups = 32;         // of a cluster, at most
inline constexpr int kClusterBytes = 200 * 1024;  // of a block, at most; the device has 227 KiB

// What a cluster takes of its sample. A function of the shape, and so are the bits of the results.
struct ClusterPlan {
  int blocks;           // of the cluster; they divide the cells
  int cells;            // of a block, at most
  int groups;           // side by side
  int channels;         // of all these groups
  unsigned tile_bytes;  // of a block: its cells in shared memory, of all fields held there
};

// Nothing if the shape does not fit. `element_bytes` is the size of a number, `fields` how many
// fields are held in shared memory. Groups are whole packs of 16 bytes.
inline std::optional<ClusterPlan> plan_cluster(const NormShape& shape, int element_bytes,
                                               int fields = 1) {
  constexpr std::int64_t kPackBytes = 16, kFewestRowBytes = 32;  // of a cell: a memory sector
  constexpr std::int64_t kBurstBytes = 64;        // of a cell: better, if there is room
  constexpr std::int64_t kTileBytes = 64 * 1024;  // kClusterBlocksAtOnce fit a multiprocessor
  constexpr std::int64_t kManyBlocks = 400;       // keep the GPU busy ...
  constexpr std::int64_t kSmallTile = 4 * 1024;   // ... and if there are fewer, tiles may shrink
  const std::int64_t width = shape.channels() / shape.groups;
  if (width * element_bytes % kPackBytes != 0) return std::nullopt;
  std::optional<ClusterPlan> best;
  std::int64_t most_blocks = 0;  // of the launch, so far
  for (std::int64_t groups = 1; groups <= std::min<std::int64_t>(shape.groups, kClusterGroups);
       ++groups) {
    const std::int64_t channels = groups * width, row = channels * element_bytes;
    if (row > kClusterThreads * kPackBytes) break;
    if (shape.groups % groups != 0 || row < kFewestRowBytes) continue;
    std::int64_t blocks = 1;
    const auto cells = [&] { return (shape.cells() + blocks - 1) / blocks; };
    const auto tile = [&] { return cells() * row * fields; };
    const auto all_blocks = [&] { return shape.batch * (shape.groups / groups) * blocks; };
    const auto too_few = [&] { return all_blocks() < kManyBlocks && tile() > kSmallTile; };
    while (blocks < kMostClusterBlocks && (tile() > kTileBytes || too_few())) blocks *= 2;
    if (tile() > (best ? kTileBytes : kClusterBytes)) break;
    if (all_blocks() < std::min(kManyBlocks, most_blocks)) break;
    most_blocks = all_blocks();
    best =
        ClusterPlan{static_cast<int>(blocks), static_cast<int>(cells()), static_cast<int>(groups),
                    static_cast<int>(channels), static_cast<unsigned>(tile())};
    if (row >= kBurstBytes) break;
  }
  return best;
}

// The same for backward, which holds x and the gradient that arrives and closes a channel's sums in
// one thread.
inline std::optional<ClusterPlan> plan_cluster_backward(const NormShape& shape, int element_bytes) {
  const auto plan = plan_cluster(shape, element_bytes, 2);
  return plan && plan->channels <= kClusterThreads ? plan : std::nullopt;
}

// Enqueues it; requires a plan, sources that fit packs of 16 bytes, and all else aligned to 16
// bytes.
template <typename T, typename Out>
void norm_in_clusters(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
                      void* stream);

// The same for backward, with plan_cluster_backward().
template <typename T>
void norm_backward_in_clusters(const NormInputs<T>& in, const float* mean, const float* rstd,
                               const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                               const ClusterPlan& plan, void* stream);

}  // namespace slift::kernels::cuda
