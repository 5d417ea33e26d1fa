#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "kernels/cuda/cluster_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kStages = 4;

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
  const int thread = static_cast<int>(threadIdx.x);

  // This cluster's groups and this block's cells.
  const int rank = static_cast<int>(cluster.block_rank()), width = plan.channels / plan.groups;
  const std::int64_t bundles = shape.groups / plan.groups, bundle = blockIdx.x / plan.blocks;
  const std::int64_t sample = bundle / bundles, first_group = bundle % bundles * plan.groups;
  const std::int64_t first_channel = first_group * width;
  const int all_cells = static_cast<int>(shape.cells());
  const int first_cell = min(rank * plan.cells, all_cells);
  const int cells = min(plan.cells, all_cells - first_cell);

  // This thread's channels and cells; threads beyond the last whole row have nothing to do.
  const int packs = plan.channels / N, rows = kClusterThreads / packs;
  const int pack = thread % packs, row = thread / packs, group = pack * N / width;
  const int begin = row < rows ? row : cells;
  const std::int64_t channel = first_channel + pack * N;
  const Column<const T> x = column(shape, in.a, in.b, sample, channel);
  auto* const tile = reinterpret_cast<Pack<T, N>*>(shared_memory) + pack;

  // The tile comes in stages, so that the first can be added up while the others are on their way.
  const int stage_cells = (cells + kStages * rows - 1) / (kStages * rows) * rows;
  const auto stage_end = [&](int stage) { return min(cells, begin + (stage + 1) * stage_cells); };
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    for (int i = begin + stage * stage_cells; i < stage_end(stage); i += rows) {
      __pipeline_memcpy_async(tile + i * packs, x.first + (first_cell + i) * x.stride, 16);
    }
    __pipeline_commit();
  }
  const auto origin_of = [&](int g) {
    const std::int64_t c = first_channel + g * width;
    return to_float(*column(shape, in.a, in.b, sample, c).first) + bias_of(in, c);
  };
  float bias[N] = {}, slope[N], offset[N];
  if (in.bias != nullptr) load(in.bias + channel, bias);
  load_affine(in, sample, channel, slope, offset);
  const float origin = origin_of(group);

  float sums[2] = {}, squares[2] = {};
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    __pipeline_wait_prior(kStages - 1 - stage);
#pragma unroll 4
    for (int i = begin + stage * stage_cells; i < stage_end(stage); i += rows) {
      float values[N];
      unpack(tile[i * packs], values);
      for (int k = 0; k < N; ++k) {
        const float deviation = values[k] + (bias[k] - origin);
        sums[k % 2] += deviation;
        squares[k % 2] += deviation * deviation;
      }
    }
  }
  thread_sums[thread] = make_float2(sums[0] + sums[1], squares[0] + squares[1]);
  __syncthreads();

  const int lane = thread % 32, group_packs = width / N;
  for (int g = thread / 32; g < plan.groups; g += kClusterThreads / 32) {
    double sum = 0, square = 0;
    for (int i = lane; i < rows * group_packs; i += 32) {
      const float2 part = thread_sums[i / group_packs * packs + g * group_packs + i % group_packs];
      sum += part.x;
      square += part.y;
    }
    sum = sum_over_lanes(sum);
    square = sum_over_lanes(square);
    if (lane == 0) block_sums[g] = make_double2(sum, square);
  }
  cluster.sync();

  if (thread < plan.groups) {
    double sum = 0, square = 0;
    for (int r = 0; r < plan.blocks; ++r) {
      const double2 part = *cluster.map_shared_rank(block_sums + thread, r);
      sum += part.x;
      square += part.y;
    }
    const double count = static_cast<double>(shape.cells()) * width, drift = sum / count;
    const double variance = max(0.0, square / count - drift * drift);
    const float2 found = make_float2(static_cast<float>(origin_of(thread) + drift),
                                     static_cast<float>(1 / sqrt(variance + kNormEpsilon)));
    statistics[thread] = found;
    if (rank == 0) {
      out.mean[sample * shape.groups + first_group + thread] = found.x;
      out.rstd[sample * shape.groups + first_group + thread] = found.y;
    }
  }
  __syncthreads();
  cluster.barrier_arrive();  // this block has read the others' sums

  const float2 found = statistics[group];
  for (int i = 0; i < N; ++i) slope[i] *= found.y;
  Out* const y = out.out + sample * shape.out_cells() * shape.channels() + channel;
#pragma unroll 4
  for (int i = begin; i < cells; i += rows) {
    float values[N];
    unpack(tile[i * packs], values);
    for (int k = 0; k < N; ++k) {
      const float deviation = values[k] + (bias[k] - found.x);
      values[k] = held(out, activate<T, F>(deviation * slope[k] + offset[k]));
    }
    const Spot<kBorder> spot(extent, first_cell + i);
    if (spot.is_only) {
      store(values, y + spot.place * shape.channels());
    } else {
      for_each_image(extent.height, extent.width, static_cast<unsigned>(first_cell + i),
                     [&](unsigned place) { store(values, y + place * shape.channels()); });
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
