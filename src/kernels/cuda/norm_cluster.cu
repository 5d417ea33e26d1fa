#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

// A thread keeps N channels of one group, of every `rows`-th cell of its block: the first cells in
// registers if there is no border, the others in the tile. Nobody else reads them, but for cells at
// the edge, which are mapped once more for their images. Sums are about a value near those of the
// group, in float32 and in an order that the plan fixes.
template <typename T, typename Out, typename F, bool kBorder>
__global__ void __launch_bounds__(kClusterThreads, forward_blocks_at_once(kBorder))
    norm_in_cluster(NormInputs<T> in, NormOutputs<Out> out, ClusterPlan plan) {
  constexpr int N = kPackSize<T>, kHeld = held_packs(kBorder);
  extern __shared__ uint4 shared_memory[];
  __shared__ float2 thread_sums[kClusterThreads];  // of deviations and their squares, by group
  __shared__ Barrier arrived;
  const Inbox inbox(arrived, plan.blocks);
  inbox.open();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const ClusterPlace<N, kHeld> place(shape, plan);
  const Column<const T> x = column(shape, in.a, in.b, place.sample, place.channel);

  SharedMemory memory(shared_memory);
  auto* const tile = memory.take<Pack<T, N>>(place.tile_cells * place.packs) + place.pack;
  float* const biases = memory.take<float>(plan.channels);
  float* const weights = memory.take<float>(plan.channels);
  float* const offsets = memory.take<float>(plan.channels);
  float2* const block_sums = memory.take<float2>(plan.groups * plan.blocks);  // [groups, blocks]
  float* const origins = memory.take<float>(plan.groups);                     // what sums are about
  begin_after_previous();

  // What others wait for comes first: a channel of each thread, and of each group what sums are
  // about.
  AffineParts parts = {};
  float bias = 0, first_biases[N] = {};
  Pack<T, N> first_pack = {};
  if (place.thread < plan.channels) {
    const int channel = place.first_channel + place.thread;
    parts = affine_parts(in, place.sample, channel);
    bias = bias_of(in, channel);
  }
  if (place.thread < plan.groups) {
    const int channel = place.first_channel + place.thread * place.width;
    first_pack = load_pack<N>(column(shape, in.a, in.b, place.sample, channel).first);
    if (in.bias != nullptr) load(in.bias + channel, first_biases);
  }

  Pack<T, N> held_cells[kHeld > 0 ? kHeld : 1];
  const auto for_each_held = [&](const auto& body) {
#pragma unroll
    for (int n = 0; n < kHeld; ++n) {
      const int i = place.begin + n * place.rows;
      if (i < place.cells) body(i, held_cells[n]);
    }
  };
  const int tile_step = place.rows * place.packs;  // from one of a thread's cells to the next
  {
    const T* const first = x.first + place.first_cell * x.stride;
    const int stride = static_cast<int>(x.stride);
    for_each_held([&](int i, Pack<T, N>& pack) { pack = load_pack<N>(first + i * stride); });
    auto* to = tile + place.begin * place.packs;
    int i = place.tile_begin;
#pragma unroll
    for (int stage = 0; stage < place.kStages; ++stage) {
      for (const int end = place.stage_end(stage); i < end; i += place.rows) {
        __pipeline_memcpy_async(to, first + i * stride, 16);
        to += tile_step;
      }
      __pipeline_commit();
    }
  }
  if (place.thread < plan.channels) {
    const Affine map = parts.closed();
    biases[place.thread] = bias;
    weights[place.thread] = map.weight;
    offsets[place.thread] = map.offset;
  }
  if (place.thread < plan.groups) {
    float values[N], sum = 0;
    unpack(first_pack, values);
    for (int k = 0; k < N; ++k) sum += values[k] + first_biases[k];
    origins[place.thread] = sum / N;
  }
  __syncthreads();

  float shift[N];  // from x to its deviation from the origin
  load_shared(biases + place.pack * N, shift);
  for (int k = 0; k < N; ++k) shift[k] -= origins[place.group];
  float sums[2] = {}, squares[2] = {};
  const auto add = [&](const Pack<T, N>& pack) {
    float values[N];
    unpack(pack, values);
    for (int k = 0; k < N; ++k) {
      const float deviation = values[k] + shift[k];
      sums[k % 2] += deviation;
      squares[k % 2] += deviation * deviation;
    }
  };
  for_each_held([&](int, const Pack<T, N>& pack) { add(pack); });
  {
    const auto* at = tile + place.begin * place.packs;
    int i = place.tile_begin;
#pragma unroll
    for (int stage = 0; stage < place.kStages; ++stage) {
      __pipeline_wait_prior(place.kStages - 1 - stage);
#pragma unroll 4
      for (const int end = place.stage_end(stage); i < end; i += place.rows) {
        add(*at);
        at += tile_step;
      }
    }
  }
  const int group_packs = place.width / N, group_threads = place.rows * group_packs;
  if (place.row < place.rows) {
    const int pack = place.pack - place.group * group_packs;
    thread_sums[place.group * group_threads + place.row * group_packs + pack] =
        make_float2(sums[0] + sums[1], squares[0] + squares[1]);
  }
  __syncthreads();
  inbox.meet(static_cast<unsigned>(plan.groups * plan.blocks) * sizeof(float2));
  const int lane = place.thread % 32;
  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    const float2 sum = sum_by_warp(thread_sums + g * group_threads, group_threads);
    if (lane < plan.blocks) inbox.send(sum, block_sums + g * plan.blocks + place.rank, lane);
  }
  inbox.await();

  const float2 sum = sum_of_blocks(block_sums + place.group * plan.blocks, plan.blocks);
  const float share = 1.0f / static_cast<float>(place.all_cells * place.width);
  const float drift = sum.x * share, variance = fmaxf(0.0f, sum.y * share - drift * drift);
  const float rstd = rsqrtf(variance + static_cast<float>(kNormEpsilon));
  if (place.rank == 0 && place.row == 0 && place.pack == place.group * group_packs) {
    const std::int64_t at = place.sample * shape.groups + place.first_group + place.group;
    out.mean[at] = origins[place.group] + drift;
    out.rstd[at] = rstd;
  }

  // Half the activation's argument is (x + shift - drift) slope + offset. For fields of few bits
  // the constants become one.
  constexpr bool kFewBits = sizeof(T) < sizeof(float);
  float slope[N], offset[N];
  load_shared(weights + place.pack * N, slope);
  load_shared(offsets + place.pack * N, offset);
  for (int k = 0; k < N; ++k) {
    shift[k] -= drift;
    slope[k] *= 0.5f * rstd;
    offset[k] *= 0.5f;
    if (kFewBits) offset[k] += shift[k] * slope[k];
  }
  const auto map = [&](const Pack<T, N>& pack, float(&values)[N]) {
    unpack(pack, values);
    for (int k = 0; k < N; ++k) {
      if (!kFewBits) values[k] += shift[k];
      values[k] = held(out, activate_half<T, F>(values[k] * slope[k] + offset[k]));
    }
  };
  const int channels = static_cast<int>(shape.channels());
  Out* const y = out.out + place.sample * shape.out_cells() * channels + place.channel;
  const auto map_cell = [&](int i, const Pack<T, N>& pack) {
    float values[N];
    map(pack, values);
    const Spot<kBorder> spot(extent, place.first_cell + i);
    store(values, y + static_cast<int>(spot.place) * channels);
  };
  for_each_held(map_cell);
  {
    const auto* at = tile + place.begin * place.packs;
#pragma unroll 4
    for (int i = place.tile_begin; i < place.cells; i += place.rows) {
      map_cell(i, *at);
      at += tile_step;
    }
  }
  if constexpr (kBorder) {
    place.for_each_edge(extent, [&](unsigned cell) {
      float values[N];
      map(tile[(static_cast<int>(cell) - place.first_cell) * place.packs], values);
      const Spot<kBorder> inside(extent, cell);  // which has been stored
      for_each_image(extent.height, extent.width, cell, [&](unsigned image) {
        if (image != inside.place) store(values, y + static_cast<int>(image) * channels);
      });
    });
  }
}

template <typename T, typename Out, typename F, bool kBorder>
void launch(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
            cudaStream_t stream) {
  launch_clusters<norm_in_cluster<T, Out, F, kBorder>>(in.shape, plan, stream, in, out, plan);
  check_launch("norm_activation");
}

}  // namespace

template <typename T, typename Out>
void norm_in_clusters(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
                      void* stream) {
  const auto with_f = [&]<typename F>(F) {
    const auto run = in.shape.border ? launch<T, Out, F, true> : launch<T, Out, F, false>;
    run(in, out, plan, static_cast<cudaStream_t>(stream));
  };
  in.f == Activation::kSilu ? with_f(Silu()) : with_f(Gelu());
}

template void norm_in_clusters(const NormInputs<float>&, const NormOutputs<float>&,
                               const ClusterPlan&, void*);
template void norm_in_clusters(const NormInputs<BFloat16>&, const NormOutputs<BFloat16>&,
                               const ClusterPlan&, void*);
template void norm_in_clusters(const NormInputs<BFloat16>&, const NormOutputs<Fp8>&,
                               const ClusterPlan&, void*);

}  // namespace slift::kernels::cuda
