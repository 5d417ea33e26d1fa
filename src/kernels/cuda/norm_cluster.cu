#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

// A thread keeps N channels of one group, of every `rows`-th cell of its block, from the first line
// to the last, so that the tile needs no barrier. Sums are about a value of the group in float32,
// closed in float64 in an order that the plan fixes.
template <typename T, typename Out, typename F, bool kBorder>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocksAtOnce)
    norm_in_cluster(NormInputs<T> in, NormOutputs<Out> out, ClusterPlan plan) {
  constexpr int N = kPackSize<T>;
  extern __shared__ uint4 shared_memory[];
  __shared__ float2 thread_sums[kClusterThreads];  // of deviations and their squares
  __shared__ double2 block_sums[kClusterGroups];
  __shared__ float2 statistics[kClusterGroups];  // mean and rstd
  const auto cluster = cooperative_groups::this_cluster();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const ClusterPlace<N> place(shape, plan, cluster.block_rank());
  const Column<const T> x = column(shape, in.a, in.b, place.sample, place.channel);
  auto* const tile = reinterpret_cast<Pack<T, N>*>(shared_memory) + place.pack;

#pragma unroll
  for (int stage = 0; stage < kClusterStages; ++stage) {
    for (int i = place.stage_begin(stage); i < place.stage_end(stage); i += place.rows) {
      __pipeline_memcpy_async(tile + i * place.packs, x.first + (place.first_cell + i) * x.stride,
                              16);
    }
    __pipeline_commit();
  }
  const auto origin_of = [&](int g) {
    const std::int64_t c = place.first_channel + g * place.width;
    return to_float(*column(shape, in.a, in.b, place.sample, c).first) + bias_of(in, c);
  };
  float bias[N] = {}, slope[N], offset[N];
  if (in.bias != nullptr) load(in.bias + place.channel, bias);
  load_affine(in, place.sample, place.channel, slope, offset);
  const float origin = origin_of(place.group);

  float sums[2] = {}, squares[2] = {};
#pragma unroll
  for (int stage = 0; stage < kClusterStages; ++stage) {
    __pipeline_wait_prior(kClusterStages - 1 - stage);
#pragma unroll 4
    for (int i = place.stage_begin(stage); i < place.stage_end(stage); i += place.rows) {
      float values[N];
      unpack(tile[i * place.packs], values);
      for (int k = 0; k < N; ++k) {
        const float deviation = values[k] + (bias[k] - origin);
        sums[k % 2] += deviation;
        squares[k % 2] += deviation * deviation;
      }
    }
  }
  thread_sums[place.thread] = make_float2(sums[0] + sums[1], squares[0] + squares[1]);
  __syncthreads();

  const int lane = place.thread % 32, group_packs = place.width / N;
  for (int g = place.thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    double sum = 0, square = 0;
    for (int i = lane; i < place.rows * group_packs; i += 32) {
      const float2 part =
          thread_sums[i / group_packs * place.packs + g * group_packs + i % group_packs];
      sum += part.x;
      square += part.y;
    }
    sum = sum_over_lanes(sum);
    square = sum_over_lanes(square);
    if (lane == 0) block_sums[g] = make_double2(sum, square);
  }
  cluster.sync();

  if (place.thread < plan.groups) {
    double sum = 0, square = 0;
    for (int r = 0; r < plan.blocks; ++r) {
      const double2 part = *cluster.map_shared_rank(block_sums + place.thread, r);
      sum += part.x;
      square += part.y;
    }
    const double count = static_cast<double>(shape.cells()) * place.width, drift = sum / count;
    const double variance = max(0.0, square / count - drift * drift);
    const float2 found = make_float2(static_cast<float>(origin_of(place.thread) + drift),
                                     static_cast<float>(1 / sqrt(variance + kNormEpsilon)));
    statistics[place.thread] = found;
    if (place.rank == 0) {
      out.mean[place.sample * shape.groups + place.first_group + place.thread] = found.x;
      out.rstd[place.sample * shape.groups + place.first_group + place.thread] = found.y;
    }
  }
  __syncthreads();
  cluster.barrier_arrive();  // this block has read the others' sums

  const float2 found = statistics[place.group];
  for (int i = 0; i < N; ++i) slope[i] *= found.y;
  Out* const y = out.out + place.sample * shape.out_cells() * shape.channels() + place.channel;
#pragma unroll 4
  for (int i = place.begin; i < place.cells; i += place.rows) {
    float values[N];
    unpack(tile[i * place.packs], values);
    for (int k = 0; k < N; ++k) {
      const float deviation = values[k] + (bias[k] - found.x);
      values[k] = held(out, activate<T, F>(deviation * slope[k] + offset[k]));
    }
    const Spot<kBorder> spot(extent, place.first_cell + i);
    if (spot.is_only) {
      store(values, y + spot.place * shape.channels());
    } else {
      for_each_image(extent.height, extent.width, static_cast<unsigned>(place.first_cell + i),
                     [&](unsigned image) { store(values, y + image * shape.channels()); });
    }
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
