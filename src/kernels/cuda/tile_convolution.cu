#include <algorithm>

#include "kernels/cuda/tile_block.h"
#include "kernels/cuda/tile_convolution.h"

namespace slift::kernels::cuda {
namespace {

template <int kRows, int kOutputs, int kSplit, bool kBackward>
__global__ void __launch_bounds__(kTileThreads, 1)
    multiply_tiles(const __grid_constant__ TileMaps maps, const __grid_constant__ TileWork work) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char tile_memory[];
  __shared__ TileBarriers barriers;
  const TileBlock<kRows, kOutputs, kSplit, kBackward> block(maps, work, barriers, tile_memory);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) barriers.init(work.weight_stages);
  __syncthreads();
  if (kSplit > 1) arrive_at_cluster();
  if (warp != kMultiplyWarps) begin_after_previous();
  if (warp < kMultiplyWarps) {
    block.multiply_all();
    return;
  }
  // The blocks meet once more for what the multiplying warps exchange.
  if (kSplit > 1) {
    wait_for_cluster();
    arrive_at_cluster();
  }
  if (warp == kMultiplyWarps) block.load();
  if (lane == 0 && warp > kMultiplyWarps && block.rank == 0) block.store();
  __syncwarp();
  if (kSplit > 1) wait_for_cluster();
#else
  __trap();      // compiled for another GPU
#endif
}

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    constexpr unsigned kVersion = 12000;  // the first to have it
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kVersion, cudaEnableDefault,
                                     &result);
    if (found == nullptr) throw std::runtime_error("the CUDA driver knows no tensor maps");
    return reinterpret_cast<EncodeTiled>(found);
  }();
  return function;
}

// Of a packed bfloat16 tensor [samples, rows, columns, channels].
struct Extents {
  std::int64_t channels, columns, rows, samples;
};

// Boxes of kChunk channels and columns x rows cells.
CUtensorMap map_of(const void* data, const Extents& all, int columns, int rows) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const auto box = [](int n) { return static_cast<cuuint32_t>(n); };
  const cuuint64_t sizes[] = {size(all.channels), size(all.columns), size(all.rows),
                              size(all.samples)};
  const cuuint64_t strides[] = {2 * sizes[0], 2 * sizes[0] * sizes[1],
                                2 * sizes[0] * sizes[1] * sizes[2]};
  const cuuint32_t boxes[] = {box(kChunk), box(columns), box(rows), 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode_tiled()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void*>(data), sizes, strides, boxes,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("a tensor map was refused");
  return map;
}

int chunks_of(std::int64_t channels) { return static_cast<int>(channels / kChunk); }

int tiles_of(std::int64_t cells, int tile) { return static_cast<int>((cells + tile - 1) / tile); }

int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

template <int kRows, int kOutputs, int kSplit, bool kBackward>
void launch_tiles(const ConvProblem& problem, const ConvOperands& operands, cudaStream_t stream) {
  using Block = TileBlock<kRows, kOutputs, kSplit, kBackward>;
  const ConvShape& shape = problem.shape;
  const int kernel = static_cast<int>(shape.kernel), border = static_cast<int>(shape.border);
  const Extents x{shape.inputs, shape.width, shape.height, shape.batch};
  const Extents y{shape.outputs, shape.out_width(), shape.out_height(), shape.batch};
  const Extents &in = kBackward ? y : x, &out = kBackward ? x : y;
  const void* const from = kBackward ? operands.y : operands.x;
  const void* const to = kBackward ? operands.x : operands.y;
  const std::int64_t mixed = problem.mixed_a + problem.mixed_b;

  TileMaps maps{};
  TileWork work{};
  const auto add = [&](const void* field, const Extents& extents, const Segment& segment) {
    if (segment.chunks == 0) return;
    maps.fields[work.segment_count] =
        map_of(field, extents, kTileColumns + segment.kernel - 1, kRows + segment.kernel - 1);
    work.segments[work.segment_count++] = segment;
  };
  add(from, in, {chunks_of(in.channels), kernel, kBackward ? kernel - 1 - border : border, 0, 0});
  const auto mixed_field = [&](std::int64_t channels) {
    return Extents{channels, out.columns, out.rows, out.samples};
  };
  add(operands.mixed_a, mixed_field(problem.mixed_a), {chunks_of(problem.mixed_a), 1, 0, 1, 0});
  add(operands.mixed_b, mixed_field(problem.mixed_b),
      {chunks_of(problem.mixed_b), 1, 0, 1, static_cast<int>(problem.mixed_a)});
  const int weight_rows = kBackward ? kChunk : kOutputs;
  maps.weights[0] = map_of(
      operands.w, {shape.inputs, shape.kernel * shape.kernel, shape.outputs, 1}, 1, weight_rows);
  if (mixed > 0) {
    maps.weights[1] = map_of(operands.mixed_w, {mixed, 1, shape.outputs, 1}, 1, kOutputs);
  }
  maps.out = map_of(to, out, kTileColumns, kRows);
  if (problem.residual) maps.residual = map_of(operands.residual, out, kTileColumns, kRows);
  if (problem.periodic) {
    maps.row = map_of(from, in, kTileColumns, 1);
    maps.cell = map_of(from, in, 1, 1);
    work.width = static_cast<int>(in.columns);
    work.height = static_cast<int>(in.rows);
  }

  work.tiles_x = tiles_of(out.columns, kTileColumns);
  work.tiles_y = tiles_of(out.rows, kRows);
  work.output_blocks = static_cast<int>(out.channels) / kOutputs;
  work.units = static_cast<int>(shape.batch) * work.tiles_x * work.tiles_y * work.output_blocks;
  const int box = (kTileColumns + kernel - 1) * (kRows + kernel - 1) * kChunkBytes;
  work.field_bytes = (box + 1023) / 1024 * 1024;  // swizzling repeats after 1024 bytes
  const int others = kFieldStages * work.field_bytes + Block::result_bytes();
  work.weight_stages = std::min(kMostWeightStages, (kMostBytes - others) / Block::kWeightBytes);
  work.residual = problem.residual;
  work.settled_weights = operands.settled_weights;
  work.bias = problem.bias ? static_cast<const __nv_bfloat16*>(operands.bias) : nullptr;

  constexpr auto kKernel = multiply_tiles<kRows, kOutputs, kSplit, kBackward>;
  const int bytes = others + work.weight_stages * Block::kWeightBytes;
  cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  cudaLaunchAttribute attributes[2] = {{}, early_launch()};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kSplit, 1, 1};
  cudaLaunchConfig_t config{};
  // Alone, a block takes many units; blocks that share one meet once and end.
  const int blocks = kSplit > 1 ? kSplit * work.units : std::min(work.units, multiprocessors());
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kTileThreads;
  config.dynamicSmemBytes = static_cast<unsigned>(bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kKernel, maps, work);
  check_launch("convolve_tiles");
}

using LaunchTiles = void (*)(const ConvProblem&, const ConvOperands&, cudaStream_t);

// Calls body(tiling, how to run it forward, and backward) for all there are. Backward is not split:
// nothing needs it, and two blocks on 128 outputs gave wrong gradients for a reason not yet found.
template <typename Body>
void for_each_tiling(const Body& body) {
  const auto call = [&]<int kRows, int kOutputs, int kSplit>() {
    LaunchTiles backward = nullptr;
    if constexpr (kSplit == 1) backward = launch_tiles<kRows, kOutputs, kSplit, true>;
    body(Tiling{kRows, kOutputs, kSplit}, launch_tiles<kRows, kOutputs, kSplit, false>, backward);
  };
  call.template operator()<16, 128, 1>();
  call.template operator()<8, 128, 1>();
  call.template operator()<16, 64, 1>();
  call.template operator()<8, 64, 1>();
  call.template operator()<8, 128, 2>();
  call.template operator()<8, 64, 2>();
}

}  // namespace

std::vector<Tiling> tilings(const ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  const bool backward = problem.pass == ConvPass::kInputGradient;
  const std::int64_t inputs = backward ? shape.outputs : shape.inputs;
  const std::int64_t outputs = backward ? shape.inputs : shape.outputs;
  const bool same_size = shape.kernel == 3 && shape.border == 1;
  std::vector<Tiling> found;
  if (problem.pass == ConvPass::kWeightGradient || problem.type != ConvType::kBFloat16 ||
      shape.stride != 1 || shape.kernel > 3 || shape.border >= shape.kernel ||
      inputs % kChunk != 0 || problem.mixed_a % kChunk != 0 || problem.mixed_b % kChunk != 0 ||
      (backward && problem.mixed_a + problem.mixed_b > 0) ||
      (problem.periodic && (!same_size || shape.width % kTileColumns != 0))) {
    return found;
  }
  for_each_tiling([&](const Tiling& tiling, LaunchTiles, LaunchTiles run_backward) {
    if (backward && run_backward == nullptr) return;
    // Each block needs something to add up.
    if (outputs % tiling.outputs == 0 && chunks_of(inputs) >= tiling.split) {
      found.push_back(tiling);
    }
  });
  return found;
}

bool gpu_runs_tiles() {
#ifdef SLIFT_CUDA_90A
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0;
#else
  return false;  // the kernel was compiled for other GPUs, and is empty
#endif
}

void convolve_tiles(const ConvProblem& problem, const Tiling& tiling, const ConvOperands& operands,
                    void* stream) {
  bool done = false;
  for_each_tiling([&](const Tiling& other, LaunchTiles forward, LaunchTiles backward) {
    if (!(other == tiling)) return;
    const LaunchTiles run = problem.pass == ConvPass::kForward ? forward : backward;
    run(problem, operands, static_cast<cudaStream_t>(stream));
    done = true;
  });
  if (!done) throw std::runtime_error("convolve_tiles: there is no such tiling");
}

}  // namespace slift::kernels::cuda
