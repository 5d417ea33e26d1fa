#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels/cuda/tile_block.h"
#include "kernels/cuda/tile_convolution.h"

namespace slift::kernels::cuda {
namespace {

template <int kRows, int kOutputs, int kSplit, bool kBackward>
__global__ void __launch_bounds__(kTileThreads, 1)
    multiply_tiles(const __grid_constant__ TileWork work, const __grid_constant__ TileMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char tile_memory[];
  __shared__ TileBarriers barriers;
  const TileBlock<kRows, kOutputs, kSplit, kBackward> block(maps, work, barriers, tile_memory);
  barriers.init(kMultiplyWarps / kSplit);
  if (kSplit == 1) {
    __syncthreads();
  } else {  // and both blocks have begun
    arrive_at_cluster();
    wait_for_cluster();
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool first_lane = threadIdx.x % 32 == 0;
  if (warp < kMultiplyWarps) block.multiply_all();
  if (warp == kMultiplyWarps) block.load_fields();
  if (warp == kMultiplyWarps + 1 && first_lane) block.load_weights();
  if (warp == kMultiplyWarps + 2 && first_lane) block.store();
#else
  __trap();  // compiled for another GPU
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

struct Dimension {
  std::int64_t size, stride;  // in numbers
  int box, step = 1;          // a box takes so many, each a step from the last
};

// Of a bfloat16 tensor, for boxes that begin with kChunk channels.
CUtensorMap map_of(const void* data, std::int64_t channels,
                   std::initializer_list<Dimension> others) {
  constexpr int kMost = 5;
  cuuint64_t sizes[kMost] = {static_cast<cuuint64_t>(channels)}, strides[kMost - 1];
  cuuint32_t boxes[kMost] = {kChunk}, steps[kMost] = {1};
  cuuint32_t rank = 1;
  for (const Dimension& d : others) {
    sizes[rank] = static_cast<cuuint64_t>(d.size);
    strides[rank - 1] = static_cast<cuuint64_t>(2 * d.stride);
    boxes[rank] = static_cast<cuuint32_t>((d.box - 1) * d.step + 1);
    steps[rank++] = static_cast<cuuint32_t>(d.step);
  }
  CUtensorMap map;
  const CUresult result = encode_tiled()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<void*>(data), sizes, strides, boxes,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("a tensor map was refused");
  return map;
}

// [samples, rows, columns, channels], packed.
struct Extents {
  std::int64_t channels, columns, rows, samples;
};

// Boxes of columns x rows cells, each `step` from the last.
CUtensorMap map_of(const void* data, const Extents& all, int columns, int rows, int step = 1) {
  const std::int64_t row = all.columns * all.channels;
  return map_of(data, all.channels,
                {{all.columns, all.channels, columns, step},
                 {all.rows, row, rows, step},
                 {all.samples, all.rows * row, 1}});
}

// The same to be stored. A growing convolution writes every other cell of every other row:
// its two columns are like channels, its two rows a dimension of their own, of which others have
// one.
CUtensorMap out_map(const void* data, const Extents& all, bool grows, int columns, int rows) {
  const std::int64_t each = grows ? 2 : 1, row = each * all.columns * all.channels;
  return map_of(data, each * all.channels,
                {{all.columns, each * all.channels, columns},
                 {each, row, 1},
                 {all.rows, each * row, rows},
                 {all.samples, each * all.rows * row, 1}});
}

std::int16_t chunks_of(std::int64_t channels) {
  return static_cast<std::int16_t>(channels / kChunk);
}

std::int8_t small(int n) { return static_cast<std::int8_t>(n); }

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
  const auto cells_from = [&](int first) { return (kernel - first + step - 1) / step; };
  Segment all{};
  all.chunks = chunks_of(backward ? shape.outputs : shape.inputs);
  all.around = small(cells_from(0) - 1);
  std::vector<Segment> found;
  for (int y = 0; y < step; ++y) {
    for (int x = 0; x < step; ++x) {
      Segment segment = all;
      segment.rows = small(cells_from(y));
      segment.columns = small(cells_from(x));
      segment.first_y = small(backward ? border + 1 - kernel : y - border);
      segment.first_x = small(backward ? border + 1 - kernel : x - border);
      // Backward, cells are in the opposite order.
      segment.first_cell = small(backward ? kernel * kernel - 1 : y * kernel + x);
      segment.row_step = small(backward ? -kernel : step * kernel);
      segment.column_step = small(backward ? -1 : step);
      found.push_back(segment);
    }
  }
  return found;
}

template <int kRows, int kOutputs, int kSplit, bool kBackward>
void launch_tiles(const ConvProblem& problem, const ConvOperands& operands, cudaStream_t stream) {
  using Block = TileBlock<kRows, kOutputs, kSplit, kBackward>;
  const ConvShape& shape = problem.shape;
  const std::int64_t fields = problem.grows ? 4 : 1, less = problem.grows ? 1 : 0;
  const Extents x{shape.inputs, shape.width, shape.height, shape.batch};
  const Extents y{shape.outputs / fields, shape.out_width() - less, shape.out_height() - less,
                  shape.batch};
  const Extents &in = kBackward ? y : x, &out = kBackward ? x : y;
  const void* const from = kBackward ? operands.y : operands.x;
  const void* const to = kBackward ? operands.x : operands.y;
  const std::int64_t outputs = out.channels * fields, mixed = problem.mixed_a + problem.mixed_b;

  TileMaps maps{};
  TileWork work{};
  work.step = static_cast<int>(shape.stride);
  for (const Segment& segment : segments_of(shape, kBackward)) {
    work.segments[work.segment_count++] = segment;
  }
  const int around = work.segments[0].around;
  maps.fields[0] = map_of(from, in, kTileColumns + around, kRows + around, work.step);
  maps.weights[0] =
      map_of(operands.w, Extents{shape.inputs, shape.kernel * shape.kernel, shape.outputs, 1}, 1,
             kBackward ? kChunk : kOutputs);
  int field = 1;
  const auto add_mixed = [&](const void* data, std::int64_t channels, std::int64_t first) {
    if (channels == 0) return;
    maps.fields[field] =
        map_of(data, Extents{channels, out.columns, out.rows, out.samples}, kTileColumns, kRows);
    Segment segment{};
    segment.chunks = chunks_of(channels);
    segment.first_chunk = chunks_of(first);
    segment.field = small(field++);
    segment.weights = segment.rows = segment.columns = 1;
    work.segments[work.segment_count++] = segment;
  };
  if (mixed > 0) {
    add_mixed(operands.mixed_a, problem.mixed_a, 0);
    add_mixed(operands.mixed_b, problem.mixed_b, problem.mixed_a);
    maps.weights[1] = map_of(operands.mixed_w, Extents{mixed, 1, shape.outputs, 1}, 1, kOutputs);
  }
  maps.out = out_map(to, out, problem.grows, Block::kColumns, kRows);
  if (problem.residual) maps.residual = map_of(operands.residual, out, Block::kColumns, kRows);
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
  work.field_bytes =
      (box_bytes(kRows, around) + 1023) / 1024 * 1024;  // swizzling repeats after 1024 bytes
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
  // Alone, a block takes many units; blocks that share one meet once and end.
  const int blocks = kSplit > 1 ? kSplit * work.units : std::min(work.units, multiprocessors());
  cudaLaunchConfig_t config =
      launch_config(static_cast<unsigned>(blocks), kTileThreads, bytes, stream);
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaLaunchKernelEx(&config, kKernel, work, maps);
  check_launch("convolve_tiles");
}

using LaunchTiles = void (*)(const ConvProblem&, const ConvOperands&, cudaStream_t);

// Calls body(tiling, how to run it forward, and backward) for all there are. Backward is not split:
// in training there are tiles for all, and every way has to be tuned.
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
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0;
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
