#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <atomic>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// Adds up over the rows of a warp, `lanes` lanes each, into the first of them. All lanes call it.
__device__ float sum_over_rows(float value, int row, int rows, int lanes) {
  for (int apart = 16; apart > 0; apart /= 2) {
    if (apart >= rows) continue;
    const float other = __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(apart * lanes));
    if (row + apart < rows) value += other;
  }
  return value;
}

__device__ double sum_over_lanes(double value) {
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    value += __shfl_down_sync(kAllLanes, value, apart);
  }
  return value;
}

// A thread keeps N channels of every `rows`-th cell of its block from the first line to the last,
// so that the tile needs no barrier. Numerics are those of the passes: sums about the channel's
// value in cell 0 in float32, closed in float64 in an order that the plan fixes.
template <typename T, typename Out, typename F, bool kBorder>
__global__ void __launch_bounds__(kClusterThreads, 2)
    norm_in_cluster(NormInputs<T> in, NormOutputs<Out> out, ClusterPlan plan) {
  constexpr int N = kPackSize<T>;
  extern __shared__ uint4 shared_memory[];
  __shared__ double2 block_sums[kClusterGroups];  // of x and x^2, with bias
  __shared__ float2 statistics[kClusterGroups];   // mean and rstd
  const auto cluster = cooperative_groups::this_cluster();
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;

  // This cluster's groups and this block's cells.
  const int rank = static_cast<int>(cluster.block_rank()), width = plan.channels / plan.groups;
  const std::int64_t bundles = shape.groups / plan.groups, bundle = blockIdx.x / plan.blocks;
  const std::int64_t sample = bundle / bundles, first_group = bundle % bundles * plan.groups;
  const std::int64_t first_channel = first_group * width;
  const int all_cells = static_cast<int>(shape.cells());
  const int first_cell = min(rank * plan.cells, all_cells);
  const int cells = min(plan.cells, all_cells - first_cell);

  // This thread's channels and rows; lanes beyond the last whole row have nothing to do.
  const int packs = plan.channels / N, warp_rows = 32 / packs, warp_row = lane / packs;
  const int pack = lane % packs, rows = kClusterWarps * warp_rows;
  const int begin = warp_row < warp_rows ? warp * warp_rows + warp_row : cells;
  const std::int64_t channel = first_channel + pack * N;
  const Column<const T> x = column(shape, in.a, in.b, sample, channel);
  auto* const tile = reinterpret_cast<Pack<T, N>*>(shared_memory);
  auto* const partials = reinterpret_cast<float*>(tile + plan.cells * packs);  // [warps, 2, C]

  for (int i = begin; i < cells; i += rows) {
    __pipeline_memcpy_async(tile + i * packs + pack, x.first + (first_cell + i) * x.stride, 16);
  }
  __pipeline_commit();
  float origin[N], centre[N], slope[N], offset[N];
  load(x.first, origin);
  for (int i = 0; i < N; ++i) {
    const Affine map = affine(in, sample, channel + i);
    centre[i] = -bias_of(in, channel + i);
    slope[i] = map.weight;
    offset[i] = map.offset;
  }
  __pipeline_wait_prior(0);

  float sums[2][N] = {};
  for (int i = begin; i < cells; i += rows) {
    float values[N];
    unpack(tile[i * packs + pack], values);
    for (int k = 0; k < N; ++k) {
      const float deviation = values[k] - origin[k];
      sums[0][k] += deviation;
      sums[1][k] += deviation * deviation;
    }
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float sum = sum_over_rows(sums[s][k], warp_row, warp_rows, packs);
      if (warp_row == 0) partials[(warp * 2 + s) * plan.channels + pack * N + k] = sum;
    }
  }
  __syncthreads();

  for (int group = warp; group < plan.groups; group += kClusterWarps) {
    double sum = 0, squares = 0;
    for (int i = lane; i < width; i += 32) {
      const int c = group * width + i;
      double first = 0, second = 0;
      for (int w = 0; w < kClusterWarps; ++w) {
        first += partials[2 * w * plan.channels + c];
        second += partials[(2 * w + 1) * plan.channels + c];
      }
      const T* const cell_0 = column(shape, in.a, in.b, sample, first_channel + c).first;
      const double k = static_cast<double>(to_float(*cell_0)) + bias_of(in, first_channel + c);
      sum += first + cells * k;
      squares += second + (2 * first + cells * k) * k;
    }
    sum = sum_over_lanes(sum);
    squares = sum_over_lanes(squares);
    if (lane == 0) block_sums[group] = make_double2(sum, squares);
  }
  cluster.sync();

  if (thread < plan.groups) {
    double sum = 0, squares = 0;
    for (int r = 0; r < plan.blocks; ++r) {
      const double2 part = *cluster.map_shared_rank(block_sums + thread, r);
      sum += part.x;
      squares += part.y;
    }
    const double count = static_cast<double>(shape.cells()) * width;
    const double mean = sum / count, variance = max(0.0, squares / count - mean * mean);
    const float2 found = make_float2(static_cast<float>(mean),
                                     static_cast<float>(1 / sqrt(variance + kNormEpsilon)));
    statistics[thread] = found;
    if (rank == 0) {
      out.mean[sample * shape.groups + first_group + thread] = found.x;
      out.rstd[sample * shape.groups + first_group + thread] = found.y;
    }
  }
  __syncthreads();
  cluster.barrier_arrive();  // this block has read the others' sums

  for (int i = 0; i < N; ++i) {
    const float2 found = statistics[(pack * N + i) / width];
    centre[i] += found.x;
    slope[i] *= found.y;
  }
  Out* const y = out.out + sample * shape.out_cells() * shape.channels() + channel;
  for (int i = begin; i < cells; i += rows) {
    float values[N];
    unpack(tile[i * packs + pack], values);
    for (int k = 0; k < N; ++k) {
      values[k] = held(out, activate<F>((values[k] - centre[k]) * slope[k] + offset[k]));
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

// A block may use more than the 48 KiB that need no permission.
void allow_shared_memory(const void* kernel, std::atomic<std::uint64_t>& allowed_devices) {
  int device = 0;
  cudaGetDevice(&device);
  const std::uint64_t bit = std::uint64_t{1} << device;
  if ((allowed_devices.load() & bit) != 0) return;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kClusterBytes);
  allowed_devices.fetch_or(bit);
}

template <typename T, typename Out, typename F, bool kBorder>
void launch(const NormInputs<T>& in, const NormOutputs<Out>& out, const ClusterPlan& plan,
            cudaStream_t stream) {
  static std::atomic<std::uint64_t> allowed_devices{0};
  const auto kernel = norm_in_cluster<T, Out, F, kBorder>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), allowed_devices);
  const auto blocks = static_cast<unsigned>(plan.blocks);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(in.shape.batch * in.shape.groups / plan.groups) * blocks;
  config.blockDim = kClusterThreads;
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, in, out, plan);
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
