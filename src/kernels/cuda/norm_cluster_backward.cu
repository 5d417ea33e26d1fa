#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kChannelSums = 3;  // of g = dloss/ds, of g (x - centre) and of x - centre

// The block's sums of each channel from its threads', into sums[k * kClusterThreads + channel]. In
// between the memory holds one of the kChannelSums of all threads, [rows, channels].
template <int N>
__device__ void close_block(const ClusterPlace<N>& place, const float (&of_thread)[kChannelSums][N],
                            float (&sums)[N * kClusterThreads]) {
  static_assert(N >= kChannelSums);
  const int channels = place.packs * N, segments = kClusterThreads / channels;
  const int channel = place.thread % channels, segment = place.thread / channels;
  float parts[kChannelSums] = {};
  for (int k = 0; k < kChannelSums; ++k) {
    store(of_thread[k], sums + place.thread * N);
    __syncthreads();
    for (int row = segment; segment < segments && row < place.rows; row += segments) {
      parts[k] += sums[row * channels + channel];
    }
    __syncthreads();
  }
  for (int k = 0; k < kChannelSums; ++k) sums[k * kClusterThreads + place.thread] = parts[k];
  __syncthreads();
  for (int k = 0; segment == 0 && k < kChannelSums; ++k) {
    float& total = sums[k * kClusterThreads + channel];  // so far of segment 0
    for (int s = 1; s < segments; ++s) total += sums[k * kClusterThreads + s * channels + channel];
  }
}

// What a group's sums add to the gradient of its x: level + tilt (x - centre).
struct GroupMap {
  float level, tilt;
};

// Closes group `g` of the cluster by one warp; see close_sums() of the CPU's kernel. cluster_sum(k,
// c) is that of channel c of the cluster, and dloss/dh is half of dloss/ds. The first block writes
// the parameters' gradients, the last that of the bias.
template <typename T, int N, typename ClusterSum>
__device__ GroupMap close_group(const NormInputs<T>& in, const ClusterPlace<N>& place,
                                bool is_last_block, int g, float rstd, const NormGradients<T>& grad,
                                const ClusterSum& cluster_sum) {
  const std::int64_t channels = in.shape.channels();
  const auto for_each_channel = [&](const auto& body) {
    for (int i = place.thread % 32; i < place.width; i += 32) {
      const int c = g * place.width + i;
      body(c, place.first_channel + c);
    }
  };
  float level = 0, tilt = 0;
  for_each_channel([&](int c, std::int64_t channel) {
    const float plain = 0.5f * cluster_sum(0, c), normed = 0.5f * cluster_sum(1, c) * rstd;
    const float scale = in.scale[channel], gain = film_gain(in, place.sample, channel);
    level += gain * scale * plain;
    tilt += gain * scale * normed;
    if (place.rank > 0) return;
    const std::int64_t at = place.sample * channels + channel;
    grad.scale[at] = gain * normed;
    grad.shift[at] = gain * plain;
    if (in.film == nullptr) return;
    float* const film = grad.film + 2 * place.sample * channels + channel;
    film[0] = scale * normed + in.shift[channel] * plain;
    film[channels] = plain;
  });
  const auto cells = static_cast<float>(in.shape.cells());
  const float count = cells * static_cast<float>(place.width);
  level = -rstd * sum_over_lanes(level) / count;
  tilt = -rstd * rstd * sum_over_lanes(tilt) / count;
  if (is_last_block && in.bias != nullptr) {
    for_each_channel([&](int c, std::int64_t channel) {
      const float slope = rstd * in.scale[channel] * film_gain(in, place.sample, channel);
      grad.bias[place.sample * channels + channel] =
          slope * 0.5f * cluster_sum(0, c) + tilt * cluster_sum(2, c) + level * cells;
    });
  }
  return {level, tilt};
}

// The tiles hold x and dloss/dout, which becomes dloss/ds of half the activation's argument, s, as
// the sums are taken. A thread reads what it has copied or written itself: no barrier. Cells at the
// edge, whose dloss/dout is the sum over their images, are read from memory both times, in loops of
// their own that share them evenly: what the tiles hold of them is not used.
template <typename T, typename F, bool kBorder>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocksAtOnce)
    norm_backward_in_cluster(NormInputs<T> in, const float* means, const float* rstds,
                             NormArrivals<T> arrivals, NormGradients<T> grad, ClusterPlan plan) {
  constexpr int N = kPackSize<T>;
  extern __shared__ uint4 shared_memory[];
  __shared__ alignas(16) float sums[N * kClusterThreads];
  __shared__ GroupMap group_maps[kClusterGroups];
  const auto cluster = cooperative_groups::this_cluster();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const ClusterPlace<N> place(shape, plan, cluster.block_rank());
  const std::int64_t channels = shape.channels();
  const Column<const T> x = column(shape, in.a, in.b, place.sample, place.channel);
  const T* const grad_y =
      arrivals.out + place.sample * shape.out_cells() * channels + place.channel;
  auto* const x_tile = reinterpret_cast<Pack<T, N>*>(shared_memory) + place.pack;
  auto* const grad_tile = x_tile + plan.cells * place.packs;

  // A thread has at most 32 cells: its rows, at least 4, fill 4/5 of the threads or more.
  static_assert(kClusterBytes / 2 / 16 <= 32 * (kClusterThreads * 4 / 5));
  unsigned edges = 0;                              // bit n: the thread's n-th cell is at the edge
  const int tile_step = place.rows * place.packs;  // from one of a thread's cells to the next
  {
    unsigned bit = 1;
    const T* from = x.first + (place.first_cell + place.begin) * x.stride;
    const std::int64_t x_step = place.rows * x.stride;
    int at = place.begin * place.packs, i = place.begin;
#pragma unroll 1
    for (int stage = 0; stage < kClusterStages; ++stage) {
      for (const int end = place.stage_end(stage); i < end; i += place.rows, bit <<= 1) {
        __pipeline_memcpy_async(x_tile + at, from, 16);
        const Spot<kBorder> spot(extent, place.first_cell + i);
        __pipeline_memcpy_async(grad_tile + at, grad_y + spot.place * channels, 16);
        if (!spot.is_only) edges |= bit;
        at += tile_step;
        from += x_step;
      }
      __pipeline_commit();
    }
  }

  // s = (x - centre) slope + offset; here and below x has no bias yet.
  float centre[N] = {}, slope[N], offset[N];
  {
    const std::int64_t at = place.sample * shape.groups + place.first_group + place.group;
    const float mean = means[at], half_rstd = 0.5f * rstds[at];
    if (in.bias != nullptr) load(in.bias + place.channel, centre);
    load_affine(in, place.sample, place.channel, slope, offset);
    for (int k = 0; k < N; ++k) {
      centre[k] = mean - centre[k];
      slope[k] *= half_rstd;
      offset[k] *= 0.5f;
    }
  }

  // From x to x - centre, from dloss/dout to dloss/ds.
  const auto through_activation = [&](float(&values)[N], float(&g)[N]) {
    for (int k = 0; k < N; ++k) {
      values[k] -= centre[k];
      g[k] *= half_slope<T, F>(values[k] * slope[k] + offset[k]);
    }
  };
  // Calls body(cell, x - centre, dloss/ds).
  const auto for_each_edge_here = [&](const auto& body) {
    if (!kBorder || place.row >= place.rows) return;
    for_each_edge(extent, static_cast<unsigned>(place.rank), static_cast<unsigned>(plan.blocks),
                  static_cast<unsigned>(place.row), static_cast<unsigned>(place.rows),
                  [&](unsigned cell) {
                    float values[N], g[N];
                    load_edge_gradient(extent, grad_y, channels, cell, g);
                    load(x.first + cell * x.stride, values);
                    through_activation(values, g);
                    body(cell, values, g);
                  });
  };

  {
    float thread_sums[kChannelSums][N] = {};
    const auto add = [&](const float(&values)[N], const float(&g)[N]) {
      for (int k = 0; k < N; ++k) {
        thread_sums[0][k] += g[k];
        thread_sums[1][k] += g[k] * values[k];
        thread_sums[2][k] += values[k];
      }
    };
    for_each_edge_here(
        [&](unsigned, const float(&values)[N], const float(&g)[N]) { add(values, g); });
    int at = place.begin * place.packs, i = place.begin;
    unsigned skip = edges;
#pragma unroll 1
    for (int stage = 0; stage < kClusterStages; ++stage) {
      __pipeline_wait_prior(static_cast<std::size_t>(kClusterStages - 1 - stage));
#pragma unroll 2
      for (const int end = place.stage_end(stage); i < end;
           i += place.rows, at += tile_step, skip >>= 1) {
        if (kBorder && (skip & 1) != 0) continue;
        float values[N], g[N];
        unpack(x_tile[at], values);
        unpack(grad_tile[at], g);
        through_activation(values, g);
        add(values, g);
        grad_tile[at] = packed<N, T>(g);
      }
    }
    close_block(place, thread_sums, sums);
  }
  cluster.sync();

  const auto cluster_sum = [&](int k, int c) {
    float parts[kMostClusterBlocks];  // all on their way at once
#pragma unroll
    for (int r = 0; r < kMostClusterBlocks; ++r) {
      parts[r] = 0;
      if (r < plan.blocks) parts[r] = *cluster.map_shared_rank(sums + k * kClusterThreads + c, r);
    }
    float total = 0;
    for (const float part : parts) total += part;
    return total;
  };
  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    const float rstd = rstds[place.sample * shape.groups + place.first_group + g];
    const GroupMap map =
        close_group(in, place, place.rank + 1 == plan.blocks, g, rstd, grad, cluster_sum);
    if (place.thread % 32 == 0) group_maps[g] = map;
  }
  __syncthreads();
  cluster.barrier_arrive();  // this block has read the others' sums

  // dloss/dx = slope dloss/ds + tilt (x - centre) + level, and what arrives from elsewhere.
  const GroupMap map = group_maps[place.group];
  const Column<T> grad_x = column(shape, grad.a, grad.b, place.sample, place.channel);
  const Column<const T> more = column(shape, arrivals.a, arrivals.b, place.sample, place.channel);
  const bool has_more = (place.channel < shape.channels_a ? arrivals.a : arrivals.b) != nullptr;
  for_each_edge_here([&](unsigned cell, const float(&values)[N], float(&g)[N]) {
    float elsewhere[N];
    load(more.first + cell * more.stride, elsewhere, has_more);
    for (int k = 0; k < N; ++k) {
      g[k] = slope[k] * g[k] + (map.tilt * values[k] + map.level) + elsewhere[k];
    }
    store(g, grad_x.first + cell * grad_x.stride);
  });
  float level[N];  // of x as it lies in the tile
  for (int k = 0; k < N; ++k) level[k] = map.level - map.tilt * centre[k];
  constexpr int kAtOnce = 4;  // loads on their way
  const std::int64_t more_step = place.rows * more.stride, grad_step = place.rows * grad_x.stride;
  const T* arrival = more.first + (place.first_cell + place.begin) * more.stride;
  T* to = grad_x.first + (place.first_cell + place.begin) * grad_x.stride;
  int at = place.begin * place.packs;
  unsigned skip = edges;
  for (int first = place.begin; first < place.cells; first += kAtOnce * place.rows) {
    float elsewhere[kAtOnce][N];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j, arrival += more_step) {
      load(arrival, elsewhere[j], has_more && first + j * place.rows < place.cells);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j, to += grad_step, at += tile_step, skip >>= 1) {
      if (first + j * place.rows >= place.cells) break;
      if (kBorder && (skip & 1) != 0) continue;
      float values[N], g[N];
      unpack(x_tile[at], values);
      unpack(grad_tile[at], g);
      for (int k = 0; k < N; ++k) {
        g[k] = slope[k] * g[k] + (map.tilt * values[k] + level[k]) + elsewhere[j][k];
      }
      store(g, to);
    }
  }
  cluster.barrier_wait();  // until the others have read this block's sums
}

template <typename T, typename F, bool kBorder>
void launch_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                     const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                     const ClusterPlan& plan, cudaStream_t stream) {
  const std::int64_t clusters = in.shape.batch * in.shape.groups / plan.groups;
  launch_clusters<norm_backward_in_cluster<T, F, kBorder>>(clusters, plan, stream, in, mean, rstd,
                                                           arrivals, grad, plan);
  check_launch("norm_activation_backward");
}

}  // namespace

template <typename T>
void norm_backward_in_clusters(const NormInputs<T>& in, const float* mean, const float* rstd,
                               const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                               const ClusterPlan& plan, void* stream) {
  const auto with_f = [&]<typename F>(F) {
    const auto run = in.shape.border ? launch_backward<T, F, true> : launch_backward<T, F, false>;
    run(in, mean, rstd, arrivals, grad, plan, static_cast<cudaStream_t>(stream));
  };
  in.f == Activation::kSilu ? with_f(Silu()) : with_f(Gelu());
}

template void norm_backward_in_clusters(const NormInputs<float>&, const float*, const float*,
                                        const NormArrivals<float>&, const NormGradients<float>&,
                                        const ClusterPlan&, void*);
template void norm_backward_in_clusters(const NormInputs<BFloat16>&, const float*, const float*,
                                        const NormArrivals<BFloat16>&,
                                        const NormGradients<BFloat16>&, const ClusterPlan&, void*);

}  // namespace slift::kernels::cuda
