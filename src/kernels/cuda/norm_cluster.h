// The forms of norm_activation() and its backward that read their fields once: a cluster of thread
// blocks holds all cells of some whole groups of a sample on the chip, adds them up, exchanges the
// sums and maps. One launch. Includes nothing of CUDA, so that plans can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/kernels.h"

namespace slift::kernels::cuda {

inline constexpr int kClusterThreads = 256;       // of a block
inline constexpr int kMostClusterBlocks = 16;     // of Hopper
inline constexpr int kClusterBytes = 204 * 1024;  // of dynamic shared memory, of a block, at most

// Forward keeps the first cells of a thread in registers, that many packs of 16 bytes. With a
// border it does not, as cells at the edge are read by other threads.
SLIFT_HD constexpr int held_packs(bool border) { return border ? 0 : 4; }

// Blocks that registers leave room for on a multiprocessor.
SLIFT_HD constexpr int forward_blocks_at_once(bool border) { return border ? 4 : 3; }
inline constexpr int kBackwardBlocksAtOnce = 3;

// What a cluster takes of its sample. A function of the shape, and so are the bits of the results.
struct ClusterPlan {
  int blocks;             // of the cluster; they divide the cells
  int cells;              // of a block, at most
  int groups;             // side by side
  int channels;           // of all these groups, at most one for each thread
  unsigned shared_bytes;  // of a block, dynamic: its cells but those in registers, and the rest
};

// What a kernel asks of its plan.
struct ClusterNeeds {
  int blocks_at_once;                 // that registers leave room for on a multiprocessor
  std::int64_t bytes;                 // for a channel of a cell
  std::int64_t held_packs;            // of a thread, in registers
  std::int64_t of_channel, of_block;  // bytes of dynamic shared memory, besides cells and groups
  std::int64_t fixed;                 // bytes of static shared memory
};

// The plan that should take the least time: as many rounds as it takes until all blocks had a place
// on the GPU, times what a round takes. Nothing if the shape does not fit; groups must be whole
// packs of 16 bytes, and a cell of a cluster has a memory sector, 32 bytes, or more.
inline std::optional<ClusterPlan> best_plan(const NormShape& shape, int element_bytes,
                                            const ClusterNeeds& needs) {
  constexpr std::int64_t kPackBytes = 16, kFewestRowBytes = 32, kMostSamples = 65535;  // of a grid
  constexpr std::int64_t kMostElements = 0x7fffffff;  // of a sample, which 32 bits count
  constexpr std::int64_t kMultiprocessors = 132, kSharedBytes = 228 * 1024;  // of an H200, of each
  constexpr std::int64_t kReservedBytes = 1024;  // of shared memory, for each block
  // Fitted to the times of many plans: what a block could move while it waits, the more so the
  // larger its cluster; what it moves in no less time if there is less; and how much longer cells
  // of fewer bytes take, most of all if the field is larger than the L2 cache.
  constexpr std::int64_t kIdleBytes = 20 * 1024, kMeetingBytes = 2 * 1024, kSmallBytes = 16 * 1024;
  constexpr std::int64_t kCacheBytes = 50 << 20;
  const bool cached = shape.batch * shape.cells() * shape.channels() * element_bytes < kCacheBytes;
  const auto slowness = [&](std::int64_t row) {
    return row < 64 ? (cached ? 25 : 28) : row < 128 && !cached ? 23 : 20;
  };
  const std::int64_t width = shape.channels() / shape.groups;
  if (width * element_bytes % kPackBytes != 0 || shape.batch > kMostSamples ||
      shape.out_cells() * shape.channels() > kMostElements) {
    return std::nullopt;
  }
  const auto rounded_up = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
  std::optional<ClusterPlan> best;
  std::int64_t best_time = 0;
  for (std::int64_t groups = 1; groups * width <= kClusterThreads; ++groups) {
    const std::int64_t channels = groups * width, row = channels * element_bytes;
    if (shape.groups % groups != 0 || row < kFewestRowBytes) continue;
    for (std::int64_t blocks = 1; blocks <= kMostClusterBlocks; blocks *= 2) {
      const std::int64_t cells = (shape.cells() + blocks - 1) / blocks;
      const std::int64_t all = cells * channels * needs.bytes;
      const std::int64_t held = needs.held_packs * (kClusterThreads * kPackBytes / row) * row;
      const std::int64_t shared = std::max<std::int64_t>(0, all - held) +
                                  channels * needs.of_channel + blocks * needs.of_block +
                                  rounded_up(groups * blocks * 8) + rounded_up(groups * 4);
      if (shared > kClusterBytes) continue;
      const std::int64_t at_once = std::min<std::int64_t>(
          needs.blocks_at_once, kSharedBytes / (shared + needs.fixed + kReservedBytes));
      const std::int64_t all_blocks = shape.batch * (shape.groups / groups) * blocks;
      const std::int64_t places = kMultiprocessors * at_once;
      const std::int64_t rounds = (all_blocks + places - 1) / places;
      const std::int64_t round = std::max(all, kSmallBytes) + kIdleBytes + blocks * kMeetingBytes;
      const std::int64_t time = rounds * round * slowness(row);
      if (best && time >= best_time) continue;
      best_time = time;
      best =
          ClusterPlan{static_cast<int>(blocks), static_cast<int>(cells), static_cast<int>(groups),
                      static_cast<int>(channels), static_cast<unsigned>(shared)};
    }
  }
  return best;
}

// `element_bytes` is the size of a number of the field.
inline std::optional<ClusterPlan> plan_cluster(const NormShape& shape, int element_bytes) {
  return best_plan(shape, element_bytes,
                   {.blocks_at_once = forward_blocks_at_once(shape.border),
                    .bytes = element_bytes,
                    .held_packs = held_packs(shape.border),
                    .of_channel = 3 * sizeof(float),
                    .of_block = 0,
                    .fixed = kClusterThreads * 2 * sizeof(float) + 16});
}

// The same for backward, which holds x and the gradient that arrives.
inline std::optional<ClusterPlan> plan_cluster_backward(const NormShape& shape, int element_bytes) {
  return best_plan(shape, element_bytes,
                   {.blocks_at_once = kBackwardBlocksAtOnce,
                    .bytes = 2 * element_bytes,
                    .held_packs = 0,
                    .of_channel = 7 * sizeof(float),
                    .of_block = 4 * sizeof(float),
                    .fixed = kClusterThreads * 8 * sizeof(float) + 16});
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
