// The form of norm_activation() that reads its inputs once: a cluster of thread blocks holds all
// cells of some whole groups of a sample in shared memory, adds them up, exchanges the sums and
// maps. One launch. Includes nothing of CUDA, so that plans can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/kernels.h"

namespace slift::kernels::cuda {

inline constexpr int kClusterThreads = 512;  // of a block
inline constexpr int kClusterWarps = kClusterThreads / 32;
inline constexpr int kClusterGroups = 32;         // of a cluster, at most
inline constexpr int kClusterBytes = 200 * 1024;  // of a block, at most; the device has 227 KiB

// What a cluster takes of its sample. A function of the shape without the batch, and so are the
// bits of a sample's results.
struct ClusterPlan {
  int blocks;             // of the cluster; they divide the cells
  int cells;              // of a block, at most
  int groups;             // side by side
  int channels;           // of all these groups
  unsigned tile_bytes;    // of a block: its cells
  unsigned shared_bytes;  // with two sums per channel and warp: all it needs
};

// Nothing if the shape does not fit. `element_bytes` is the size of a number.
inline std::optional<ClusterPlan> plan_cluster(const NormShape& shape, int element_bytes) {
  constexpr std::int64_t kMostBlocks = 8;           // that any GPU with clusters can run
  constexpr std::int64_t kWantedBytes = 32 * 1024;  // of a tile; fewer do not pay for the exchange
  constexpr std::int64_t kPackBytes = 16, kMostPacks = 32;  // of a cell: one warp's
  constexpr std::int64_t kFewestRowBytes = 32;              // of a cell: what memory is read by
  constexpr std::int64_t kBurstBytes = 64;         // better, if the tiles of more groups leave
  constexpr std::int64_t kRoomyBytes = 64 * 1024;  // room for a second block
  const std::int64_t width = shape.channels() / shape.groups;
  std::optional<ClusterPlan> best;
  for (std::int64_t groups = 1; groups <= std::min<std::int64_t>(shape.groups, kClusterGroups);
       ++groups) {
    const std::int64_t channels = groups * width, row = channels * element_bytes;
    if (row > kMostPacks * kPackBytes) break;
    if (shape.groups % groups != 0 || row % kPackBytes != 0 || row < kFewestRowBytes) continue;
    std::int64_t blocks = 1, cells = shape.cells();
    while (blocks < kMostBlocks && cells * row > kWantedBytes) {
      blocks *= 2;
      cells = (shape.cells() + blocks - 1) / blocks;
    }
    const std::int64_t tile = cells * row;
    const std::int64_t shared = tile + kClusterWarps * 2 * channels * std::int64_t{sizeof(float)};
    if (shared > kClusterBytes || (best && tile > kRoomyBytes)) break;
    best = ClusterPlan{static_cast<int>(blocks),    static_cast<int>(cells),
                       static_cast<int>(groups),    static_cast<int>(channels),
                       static_cast<unsigned>(tile), static_cast<unsigned>(shared)};
    if (row >= kBurstBytes) break;
  }
  return best;
}

// Enqueues it; requires a plan, sources that fit packs of 16 bytes and `out` aligned to 16 bytes.
template <typename T, typename Out>
void norm_in_clusters(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
                      void* stream);

}  // namespace slift::kernels::cuda
