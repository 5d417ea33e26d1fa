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

// Of a bfloat16 tensor [samples, rows, columns, channels], whose channels lie side by side.
struct Layout {
  std::int64_t channels, columns, rows, samples;
  std::int64_t column_stride, row_stride, sample_stride;  // in numbers
};

Layout packed(std::int64_t channels, std::int64_t columns, std::int64_t rows,
              std::int64_t samples) {
  return {
      channels, columns, rows, samples, channels, columns * channels, rows * columns * channels};
}

// Boxes of kChunk channels and columns x rows cells, each `step` from the last.
CUtensorMap map_of(const void* data, const Layout& all, int columns, int rows, int step = 1) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const auto box = [](int n) { return static_cast<cuuint32_t>(n); };
  const cuuint64_t sizes[] = {size(all.channels), size(all.columns), size(all.rows),
                              size(all.samples)};
  const cuuint64_t strides[] = {2 * size(all.column_stride), 2 * size(all.row_stride),
                                2 * size(all.sample_stride)};
  const cuuint32_t boxes[] = {box(kChunk), box((columns - 1) * step + 1),
                              box((rows - 1) * step + 1), 1};
  const cuuint32_t steps[] = {1, box(step), box(step), 1};
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

// The parts of a convolution's own sum. With a step of 2 the cells of the kernel meet those of the
// field in turn: it is four convolutions, by odd and even rows and columns.
std::vector<Segment> segments_of(const ConvShape& shape, bool backward) {
  const int kernel = static_cast<int>(shape.kernel), step = static_cast<int>(shape.stride);
  const int border = static_cast<int>(shape.border);
  if (backward) {  // cells are in the opposite order
    return {{chunks_of(shape.outputs), kernel, kernel, border + 1 - kernel, border + 1 - kernel, 0,
             0, kernel * kernel - 1, -kernel, -1}};
  }
  std::vector<Segment> found;
  for (int y = 0; y < step; ++y) {
    for (int x = 0; x < step; ++x) {
      const auto cells = [&](int first) { return (kernel - first + step - 1) / step; };
      found.push_back({chunks_of(shape.inputs), cells(y), cells(x), y - border, x - border, 0, 0,
                       y * kernel + x, step * kernel, step});
    }
  }
  return found;
}

template <int kRows, int kOutputs, int kSplit, bool kBackward>
void launch_tiles(const ConvProblem& problem, const ConvOperands& operands, cudaStream_t stream) {
  using Block = TileBlock<kRows, kOutputs, kSplit, kBackward>;
  const ConvShape& shape = problem.shape;
  const std::int64_t fields = problem.grows ? 4 : 1, less = problem.grows ? 1 : 0;
  const Layout x = packed(shape.inputs, shape.width, shape.height, shape.batch);
  const Layout y = packed(shape.outputs / fields, shape.out_width() - less,
                          shape.out_height() - less, shape.batch);
  const Layout &in = kBackward ? y : x, &out = kBackward ? x : y;
  const void* const from = kBackward ? operands.y : operands.x;
  const void* const to = kBackward ? operands.x : operands.y;
  const std::int64_t outputs = out.channels * fields, mixed = problem.mixed_a + problem.mixed_b;

  TileMaps maps{};
  TileWork work{};
  work.step = static_cast<int>(shape.stride);
  int largest = 0;
  const auto add = [&](const void* field, const Layout& layout, const Segment& segment) {
    if (segment.chunks == 0) return;
    maps.fields[work.segment_count] =
        map_of(field, layout, kTileColumns + segment.columns - 1, kRows + segment.rows - 1,
               segment.weights == 0 ? work.step : 1);
    work.segments[work.segment_count++] = segment;
    largest = std::max(largest, segment.box_bytes(kRows));
  };
  for (const Segment& segment : segments_of(shape, kBackward)) add(from, in, segment);
  const auto add_mixed = [&](const void* field, std::int64_t channels, std::int64_t first) {
    add(field, packed(channels, out.columns, out.rows, out.samples),
        {chunks_of(channels), 1, 1, 0, 0, 1, static_cast<int>(first), 0, 0, 0});
  };
  add_mixed(operands.mixed_a, problem.mixed_a, 0);
  add_mixed(operands.mixed_b, problem.mixed_b, problem.mixed_a);
  maps.weights[0] =
      map_of(operands.w, packed(shape.inputs, shape.kernel * shape.kernel, shape.outputs, 1), 1,
             kBackward ? kChunk : kOutputs);
  if (mixed > 0) {
    maps.weights[1] = map_of(operands.mixed_w, packed(mixed, 1, shape.outputs, 1), 1, kOutputs);
  }
  if (problem.grows) {  // y [batch, 2 rows, 2 columns, channels]
    const std::int64_t row = 2 * out.columns * out.channels;
    const Layout apart{out.channels,     out.columns, out.rows,          out.samples,
                       2 * out.channels, 2 * row,     2 * out.rows * row};
    for (int i = 0; i < 4; ++i) {
      const std::int64_t first = i / 2 * row + i % 2 * out.channels;
      maps.out[i] =
          map_of(static_cast<const __nv_bfloat16*>(to) + first, apart, kTileColumns, kRows);
    }
  } else {
    maps.out[0] = map_of(to, out, kTileColumns, kRows);
  }
  if (problem.residual) maps.residual = map_of(operands.residual, out, kTileColumns, kRows);
  if (problem.periodic) {
    maps.row = map_of(from, in, kTileColumns, 1);
    maps.cell = map_of(from, in, 1, 1);
    work.width = static_cast<int>(in.columns);
    work.height = static_cast<int>(in.rows);
  }

  work.tiles_x = tiles_of(out.columns, kTileColumns);
  work.tiles_y = tiles_of(out.rows, kRows);
  work.output_blocks = static_cast<int>(outputs) / kOutputs;
  work.units = static_cast<int>(shape.batch) * work.tiles_x * work.tiles_y * work.output_blocks;
  work.quarter = static_cast<int>(out.channels);
  work.field_bytes = (largest + 1023) / 1024 * 1024;  // swizzling repeats after 1024 bytes
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
  const std::int64_t mixed = problem.mixed_a + problem.mixed_b;
  const bool plain = !backward && !problem.residual && mixed == 0 && !problem.periodic;
  std::vector<Tiling> found;
  const bool possible =
      problem.pass != ConvPass::kWeightGradient && problem.type == ConvType::kBFloat16 &&
      shape.kernel <= 3 && shape.border < shape.kernel && inputs % kChunk == 0 &&
      problem.mixed_a % kChunk == 0 && problem.mixed_b % kChunk == 0 &&
      (shape.stride == 1 || (shape.stride == 2 && plain && !problem.grows)) &&
      (!problem.grows || (plain && shape.kernel == 2 && outputs % 4 == 0)) &&
      !(backward && mixed > 0) &&
      (!problem.periodic ||
       (shape.kernel == 3 && shape.border == 1 && shape.width % kTileColumns == 0));
  if (!possible) return found;
  for_each_tiling([&](const Tiling& tiling, LaunchTiles, LaunchTiles run_backward) {
    if (backward && run_backward == nullptr) return;
    const std::int64_t of_field = problem.grows ? outputs / 4 : outputs;
    // Each block needs something to add up.
    if (of_field % tiling.outputs == 0 && chunks_of(inputs) >= tiling.split) {
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
