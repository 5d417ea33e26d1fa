#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

// A thread keeps N channels of one group, of every `rows`-th cell of its block, so that the tile
// needs no barrier until all have been added up. Cells at the edge are mapped once more for their
// images. Sums are about a value of the group in float32,
// closed in float64 in an order that the plan fixes.
template <typename T, typename Out, typename F, bool kBorder>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocksAtOnce)
    norm_in_cluster(NormInputs<T> in, NormOutputs<Out> out, ClusterPlan plan) {
  constexpr int N = kPackSize<T>;
  extern __shared__ uint4 shared_memory[];
  __shared__ float2 thread_sums[kClusterThreads];  // of deviations and their squares
  __shared__ double2 block_sums[kClusterGroups];
  __shared__ float origins[kClusterGroups];      // what sums are about
  __shared__ float2 statistics[kClusterGroups];  // mean and rstd
  const auto cluster = cooperative_groups::this_cluster();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const ClusterPlace<N> place(shape, plan, cluster.block_rank());
  const Column<const T> x = column(shape, in.a, in.b, place.sample, place.channel);
  auto* const tile = reinterpret_cast<Pack<T, N>*>(shared_memory) + place.pack;

  const int tile_step = place.rows * place.packs;  // from one of a thread's cells to the next
  const std::int64_t x_step = place.rows * x.stride;
  {
    const T* from = x.first + (place.first_cell + place.begin) * x.stride;
    auto* to = tile + place.begin * place.packs;
    int i = place.begin;
#pragma unroll
    for (int stage = 0; stage < kClusterStages; ++stage) {
      for (const int end = place.stage_end(stage); i < end; i += place.rows) {
        __pipeline_memcpy_async(to, from, 16);
        to += tile_step;
        from += x_step;
      }
      __pipeline_commit();
    }
  }
  if (place.thread < plan.groups) {
    const std::int64_t c = place.first_channel + place.thread * place.width;
    origins[place.thread] =
        to_float(*column(shape, in.a, in.b, place.sample, c).first) + bias_of(in, c);
  }
  float bias[N] = {}, slope[N], offset[N];
  if (in.bias != nullptr) load(in.bias + place.channel, bias);
  load_affine(in, place.sample, place.channel, slope, offset);
  __syncthreads();
  const float origin = origins[place.group];

  float sums[2] = {}, squares[2] = {};
  {
    const auto* at = tile + place.begin * place.packs;
    int i = place.begin;
#pragma unroll
    for (int stage = 0; stage < kClusterStages; ++stage) {
      __pipeline_wait_prior(kClusterStages - 1 - stage);
#pragma unroll 4
      for (const int end = place.stage_end(stage); i < end; i += place.rows) {
        float values[N];
        unpack(*at, values);
        at += tile_step;
        for (int k = 0; k < N; ++k) {
          const float deviation = values[k] + (bias[k] - origin);
          sums[k % 2] += deviation;
          squares[k % 2] += deviation * deviation;
        }
      }
    }
  }
  thread_sums[place.thread] = make_float2(sums[0] + sums[1], squares[0] + squares[1]);
  __syncthreads();

  const int lane = place.thread % 32, group_packs = place.width / N;
  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    double sum = 0, square = 0;
    for (int row = lane; row < place.rows; row += 32) {
      for (int i = 0; i < group_packs; ++i) {
        const float2 part = thread_sums[row * place.packs + g * group_packs + i];
        sum += part.x;
        square += part.y;
      }
    }
    sum = sum_over_lanes(sum);
    square = sum_over_lanes(square);
    if (lane == 0) block_sums[g] = make_double2(sum, square);
  }
  cluster.sync();

  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    double2 part = make_double2(0, 0);  // of one block each, so that all are read at once
    if (lane < plan.blocks) part = *cluster.map_shared_rank(block_sums + g, lane);
    const double sum = sum_over_lanes(part.x), square = sum_over_lanes(part.y);
    if (lane > 0) continue;
    const double count = static_cast<double>(shape.cells()) * place.width, drift = sum / count;
    const double variance = max(0.0, square / count - drift * drift);
    const float2 found = make_float2(static_cast<float>(origins[g] + drift),
                                     static_cast<float>(rsqrt(variance + kNormEpsilon)));
    statistics[g] = found;
    if (place.rank == 0) {
      out.mean[place.sample * shape.groups + place.first_group + g] = found.x;
      out.rstd[place.sample * shape.groups + place.first_group + g] = found.y;
    }
  }
  __syncthreads();
  cluster.barrier_arrive();  // this block has read the others' sums

  // Half the activation's argument is (x - centre) slope + offset. For fields of few bits the
  // centre goes into the offset.
  constexpr bool kFewBits = sizeof(T) < sizeof(float);
  const float2 found = statistics[place.group];
  float centre[N];
  for (int k = 0; k < N; ++k) {
    centre[k] = found.x - bias[k];
    slope[k] *= 0.5f * found.y;
    offset[k] *= 0.5f;
    if (kFewBits) offset[k] -= centre[k] * slope[k];
  }
  Out* const y = out.out + place.sample * shape.out_cells() * shape.channels() + place.channel;
  const auto compute = [&](int i, float(&values)[N]) {
    unpack(tile[i * place.packs], values);
    for (int k = 0; k < N; ++k) {
      if (!kFewBits) values[k] -= centre[k];
      values[k] = held(out, activate_half<T, F>(values[k] * slope[k] + offset[k]));
    }
  };
#pragma unroll 4
  for (int i = place.begin; i < place.cells; i += place.rows) {
    float values[N];
    compute(i, values);
    store(values, y + Spot<kBorder>(extent, place.first_cell + i).place * shape.channels());
  }
  if constexpr (kBorder) {
    place.for_each_edge(extent, [&](unsigned cell) {
      float values[N];
      compute(static_cast<int>(cell) - place.first_cell, values);
      for_each_image(extent.height, extent.width, cell,
                     [&](unsigned image) { store(values, y + image * shape.channels()); });
    });
  }
  cluster.barrier_wait();  // until the others have read this block's sums
}

template <typename T, typename Out, typename F, bool kBorder>
void launch(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
            cudaStream_t stream) {
  const std::int64_t clusters = in.shape.batch * in.shape.groups / plan.groups;
  launch_clusters<norm_in_cluster<T, Out, F, kBorder>>(clusters, plan, stream, in, out, plan);
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
