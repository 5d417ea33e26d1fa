#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kChannelSums = 3;  // of g = dloss/ds, of g (x - centre) and of x - centre

// The block's sums of channel `place.thread` of the cluster, if there is one, from its threads'.
// `shared` holds one of the kChannelSums of all threads at a time, [rows, channels].
template <int N>
__device__ void close_block(const ClusterPlace<N, 0>& place, int channels,
                            const float (&of_thread)[kChannelSums][N],
                            float (&shared)[N * kClusterThreads], float (&sums)[kChannelSums]) {
  static_assert(N >= kChannelSums);
  const int segments = kClusterThreads / channels, segment = place.thread / channels;
  const int channel = place.thread - segment * channels;
  for (int k = 0; k < kChannelSums; ++k) {
    sums[k] = 0;
    store(of_thread[k], shared + place.thread * N);
    __syncthreads();
    for (int row = segment; segment < segments && row < place.rows; row += segments) {
      sums[k] += shared[row * channels + channel];
    }
    __syncthreads();
  }
  for (int k = 0; k < kChannelSums; ++k) shared[k * kClusterThreads + place.thread] = sums[k];
  __syncthreads();
  for (int k = 0; segment == 0 && k < kChannelSums; ++k) {
    for (int s = 1; s < segments; ++s) {
      sums[k] += shared[k * kClusterThreads + s * channels + channel];
    }
  }
}

// What a group's sums add to the gradient of its x: level + tilt (x - centre).
struct GroupMap {
  float level, tilt;
};

// The tiles hold x and dloss/dout, which becomes dloss/ds of half the activation's argument, s, as
// the sums are taken. Cells at the edge, whose dloss/dout is the sum over their images, are shared
// evenly by the threads and read from memory both times, as T would round that sum; all others are
// the thread's that copied them.
template <typename T, typename F, bool kBorder, bool kAgain>
__global__ void __launch_bounds__(kClusterThreads, kBackwardBlocksAtOnce)
    norm_backward_in_cluster(NormInputs<T> in, const float* means, const float* rstds,
                             NormArrivals<T> arrivals, NormGradients<T> grad, ClusterPlan plan) {
  constexpr int N = kPackSize<T>;
  extern __shared__ uint4 shared_memory[];
  alignas(16) __shared__ float thread_sums[N * kClusterThreads];
  __shared__ Barrier arrived;
  const Inbox inbox(arrived, plan.blocks);
  inbox.open();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const ClusterPlace<N, 0> place(shape, plan);
  const int channels = static_cast<int>(shape.channels());
  const Column<const T> x = column(shape, in.a, in.b, place.sample, place.channel);
  const T* const grad_y =
      arrivals.out + place.sample * shape.out_cells() * channels + place.channel;

  SharedMemory memory(shared_memory);
  auto* const x_tile = memory.take<Pack<T, N>>(plan.cells * place.packs) + place.pack;
  auto* const grad_tile = memory.take<Pack<T, N>>(plan.cells * place.packs) + place.pack;
  float* const centres = memory.take<float>(3 * plan.channels);
  float *const slopes = centres + plan.channels, *const offsets = slopes + plan.channels;
  auto* const channel_parts =
      reinterpret_cast<float2*>(centres);  // of its group's sums; once those are read
  auto* const channel_sums = memory.take<float4>(plan.channels + plan.blocks);  // [own, blocks]
  auto* const group_sums = memory.take<float2>(plan.groups * plan.blocks);      // [groups, blocks]
  begin_after_previous();

  // What others wait for comes first: a channel of each thread.
  const std::int64_t first_group = place.sample * shape.groups + place.first_group;
  AffineParts parts = {};
  float bias = 0, mean = 0, rstd = 0;
  if (place.thread < plan.channels) {
    const int channel = place.first_channel + place.thread;
    parts = affine_parts(in, place.sample, channel);
    bias = bias_of(in, channel);
    mean = means[first_group + place.thread / place.width];
    rstd = rstds[first_group + place.thread / place.width];
  }

  // A thread has at most 32 cells: its rows, at least 4, fill 4/5 of the threads or more.
  static_assert(kClusterBytes / 2 / 16 <= 32 * (kClusterThreads * 4 / 5));
  unsigned edges = 0;                              // bit n: the thread's n-th cell is at the edge
  const int tile_step = place.rows * place.packs;  // from one of a thread's cells to the next
  {
    unsigned bit = 1;
    const T* const first = x.first + place.first_cell * x.stride;
    const int stride = static_cast<int>(x.stride);
    int at = place.begin * place.packs, i = place.begin;
#pragma unroll 1
    for (int stage = 0; stage < place.kStages; ++stage) {
      for (const int end = place.stage_end(stage); i < end; i += place.rows, bit <<= 1) {
        __pipeline_memcpy_async(x_tile + at, first + i * stride, 16);
        const Spot<kBorder> spot(extent, place.first_cell + i);
        if (spot.is_only) {
          __pipeline_memcpy_async(grad_tile + at, grad_y + static_cast<int>(spot.place) * channels,
                                  16);
        } else {
          edges |= bit;
        }
        at += tile_step;
      }
      __pipeline_commit();
    }
  }

  // s = (x - centre) slope + offset; here and below x has no bias yet.
  if (place.thread < plan.channels) {
    const Affine map = parts.closed();
    centres[place.thread] = mean - bias;
    slopes[place.thread] = 0.5f * rstd * map.weight;
    offsets[place.thread] = 0.5f * map.offset;
  }
  __syncthreads();
  float centre[N], slope[N], offset[N];
  load_shared(centres + place.pack * N, centre);
  load_shared(slopes + place.pack * N, slope);
  load_shared(offsets + place.pack * N, offset);
  // What channel `thread` adds to its group's sums, of its own.
  const float weight = place.thread < plan.channels ? slopes[place.thread] : 0;

  float block_sums[kChannelSums];
  {
    float sums[kChannelSums][N] = {};
    // From dloss/dout to dloss/ds.
    const auto add = [&](float(&values)[N], float(&g)[N]) {
      for (int k = 0; k < N; ++k) {
        values[k] -= centre[k];
        g[k] *= half_slope<T, F>(values[k] * slope[k] + offset[k]);
        sums[0][k] += g[k];
        sums[1][k] += g[k] * values[k];
        sums[2][k] += values[k];
      }
    };
    if constexpr (kBorder) {
      place.for_each_edge(extent, [&](unsigned cell) {
        float values[N], g[N];
        load_edge_gradient(extent, grad_y, channels, cell, g);
        load(x.first + cell * x.stride, values);
        add(values, g);
      });
    }
    unsigned remaining = edges;
    int at = place.begin * place.packs, i = place.begin;
#pragma unroll 1
    for (int stage = 0; stage < place.kStages; ++stage) {
      __pipeline_wait_prior(static_cast<std::size_t>(place.kStages - 1 - stage));
#pragma unroll 2
      for (const int end = place.stage_end(stage); i < end;
           i += place.rows, at += tile_step, remaining >>= 1) {
        if (kBorder && (remaining & 1) != 0) continue;
        float values[N], g[N];
        unpack(x_tile[at], values);
        unpack(grad_tile[at], g);
        add(values, g);
        grad_tile[at] = packed<N, T>(g);
      }
    }
    close_block(place, plan.channels, sums, thread_sums, block_sums);
  }

  // Each block closes its share of the channels: every blocks-th, from `rank` on.
  const int own_channels = (plan.channels - place.rank + plan.blocks - 1) / plan.blocks;
  inbox.meet(static_cast<unsigned>(plan.blocks) *
             (static_cast<unsigned>(plan.groups) * sizeof(float2) +
              static_cast<unsigned>(own_channels) * sizeof(float4)));
  // dloss/dh is half of dloss/ds; see close_sums() of the CPU's kernel. Slopes have that half and
  // one factor rstd.
  if (place.thread < plan.channels) {
    const int c = place.thread;
    channel_parts[c] = make_float2(weight * block_sums[0], weight * block_sums[1]);
    inbox.send(make_float4(block_sums[0], block_sums[1], block_sums[2], 0),
               channel_sums + c / plan.blocks * plan.blocks + place.rank, c % plan.blocks);
  }
  __syncthreads();
  const int lane = place.thread % 32;
  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    const float2 sum = sum_by_warp(channel_parts + g * place.width, place.width);
    if (lane < plan.blocks) inbox.send(sum, group_sums + g * plan.blocks + place.rank, lane);
  }
  // Of the channel that this thread closes, on their way while the blocks exchange their sums.
  const bool closes = place.thread < own_channels;
  const int own = place.thread * plan.blocks + place.rank, own_group = own / place.width;
  float own_rstd = 0, scale = 0, shift = 0, gain = 0;
  if (closes) {
    const std::int64_t channel = place.first_channel + own;
    own_rstd = rstds[first_group + own_group];
    scale = in.scale[channel];
    shift = in.shift[channel];
    gain = film_gain(in, place.sample, channel);
  }
  const float group_rstd = rstds[first_group + place.group];
  inbox.await();

  const auto cells = static_cast<float>(place.all_cells);
  const auto map_of = [&](int g, float rstd_of_g) {
    const float2 sum = sum_of_blocks(group_sums + g * plan.blocks, plan.blocks);
    const float share = -1.0f / (cells * static_cast<float>(place.width));
    return GroupMap{share * sum.x, share * rstd_of_g * rstd_of_g * sum.y};
  };
  // dloss/dx = slope dloss/ds + tilt (x - centre) + level, and what arrives from elsewhere.
  const GroupMap map = map_of(place.group, group_rstd);
  float level[N];  // of x as it lies in the tile
  for (int k = 0; k < N; ++k) level[k] = map.level - map.tilt * centre[k];
  const Column<T> grad_x = column(shape, grad.a, grad.b, place.sample, place.channel);
  const Column<const T> more = column(shape, arrivals.a, arrivals.b, place.sample, place.channel);
  const bool has_more = (place.channel < shape.channels_a ? arrivals.a : arrivals.b) != nullptr;
  const T* const arrival = more.first + place.first_cell * more.stride;
  const bool has_again = kAgain && place.channel < shape.channels_a;
  const T* const again =
      column(shape, arrivals.again, arrivals.b, place.sample, place.channel).first +
      place.first_cell * more.stride;
  T* const to = grad_x.first + place.first_cell * grad_x.stride;
  const int stride = static_cast<int>(grad_x.stride);
  constexpr int kAtOnce = kAgain || kBorder ? 2 : 4;  // loads on their way, of each arrival
  const auto finish = [&](float(&g)[N], const float(&values)[N], const float(&elsewhere)[N],
                          int i) {
    for (int k = 0; k < N; ++k) {
      g[k] = slope[k] * g[k] + (map.tilt * values[k] + level[k]) + elsewhere[k];
    }
    store(g, to + i * stride);
  };
  int at = place.begin * place.packs;
  for (int first = place.begin; first < place.cells; first += kAtOnce * place.rows) {
    float elsewhere[kAtOnce][N];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * place.rows;
      load(arrival + i * stride, elsewhere[j], has_more && i < place.cells);
    }
    if constexpr (kAgain) {
      float once_more[kAtOnce][N];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * place.rows;
        load(again + i * stride, once_more[j], has_again && i < place.cells);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        for (int k = 0; k < N; ++k) elsewhere[j][k] += once_more[j][k];
      }
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j, at += tile_step) {
      const int i = first + j * place.rows;
      if (i >= place.cells) break;
      if (kBorder) {
        const bool at_edge = (edges & 1) != 0;
        edges >>= 1;
        if (at_edge) continue;
      }
      float values[N], g[N];
      unpack(x_tile[at], values);
      unpack(grad_tile[at], g);
      finish(g, values, elsewhere[j], i);
    }
  }
  if constexpr (kBorder) {
    place.for_each_edge(extent, [&](unsigned cell) {
      const int i = static_cast<int>(cell) - place.first_cell;
      float values[N], g[N], elsewhere[N];
      load_edge_gradient(extent, grad_y, channels, cell, g);
      load(x.first + cell * x.stride, values);
      load(arrival + i * stride, elsewhere, has_more);
      if constexpr (kAgain) {
        float once_more[N];
        load(again + i * stride, once_more, has_again);
        for (int k = 0; k < N; ++k) elsewhere[k] += once_more[k];
      }
      for (int k = 0; k < N; ++k) {
        g[k] *= half_slope<T, F>((values[k] - centre[k]) * slope[k] + offset[k]);
      }
      finish(g, values, elsewhere, i);
    });
  }

  if (!closes) return;
  float4 sums = make_float4(0, 0, 0, 0);
#pragma unroll 4
  for (int r = 0; r < plan.blocks; ++r) {
    const float4 part = channel_sums[place.thread * plan.blocks + r];
    sums.x += part.x;
    sums.y += part.y;
    sums.z += part.z;
  }
  const float plain = 0.5f * sums.x, normed = 0.5f * sums.y * own_rstd;
  const std::int64_t row = place.sample * channels, channel = place.first_channel + own;
  grad.scale[row + channel] = gain * normed;
  grad.shift[row + channel] = gain * plain;
  if (in.film != nullptr) {
    grad.film[2 * row + channel] = scale * normed + shift * plain;
    grad.film[2 * row + channels + channel] = plain;
  }
  if (in.bias != nullptr) {
    const GroupMap own_map = map_of(own_group, own_rstd);
    grad.bias[row + channel] =
        own_rstd * scale * gain * plain + own_map.tilt * sums.z + own_map.level * cells;
  }
}

template <typename T, typename F, bool kBorder, bool kAgain>
void launch_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                     const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                     const ClusterPlan& plan, cudaStream_t stream) {
  launch_clusters<norm_backward_in_cluster<T, F, kBorder, kAgain>>(in.shape, plan, stream, in, mean,
                                                                   rstd, arrivals, grad, plan);
  check_launch("norm_activation_backward");
}

}  // namespace

template <typename T>
void norm_backward_in_clusters(const NormInputs<T>& in, const float* mean, const float* rstd,
                               const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                               const ClusterPlan& plan, void* stream) {
  const auto with_f = [&]<typename F>(F) {
    const auto with_border = [&]<bool kBorder>() {
      return arrivals.again != nullptr ? launch_backward<T, F, kBorder, true>
                                       : launch_backward<T, F, kBorder, false>;
    };
    const auto run = in.shape.border ? with_border.template operator()<true>()
                                     : with_border.template operator()<false>();
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
