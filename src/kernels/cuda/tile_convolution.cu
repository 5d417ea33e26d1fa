#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/hopper.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile_convolution.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kTileColumns = 16, kSubtileRows = 8;  // two warpgroups, 8 x 8 cells of each at once
constexpr int kChunk = 64;                          // channels multiplied at once
constexpr int kChunkBytes = kChunk * 2;             // of a cell or of a row of weights
constexpr int kMultiplyWarps = 8, kMultiplyThreads = kMultiplyWarps * 32;
constexpr int kTileThreads = kMultiplyThreads + 2 * 32;  // one warp loads, one stores
constexpr int kFieldStages = 2, kMostWeightStages = 12;
constexpr int kMostBytes = 226 * 1024;  // of dynamic shared memory; the barriers take a kilobyte
constexpr int kMostSegments = 3;

// A part of the sum: a convolution of one field.
struct Segment {
  int chunks, kernel, border;
  int weights, first_input;  // which weights, and where this field's begin in them
};

struct TileWork {
  Segment segments[kMostSegments];
  int segment_count;
  int width, height;                           // of a periodic field, or else 0
  int tiles_x, tiles_y, output_blocks, units;  // a unit is a tile of cells and of outputs
  int field_bytes, weight_stages;              // of a stage; stages
  bool residual;
  const __nv_bfloat16* bias;
};

struct TileMaps {
  CUtensorMap fields[kMostSegments], weights[2], residual, out;
  CUtensorMap row, cell;  // of a periodic field: boxes of a tile's width, and of one cell
};

struct Place {
  int output, x, y, sample;
};

template <int kRows, int kOutputs>
__device__ Place place_of(const TileWork& work, int unit) {
  const int tile = unit / work.output_blocks, row = tile / work.tiles_x, n = row / work.tiles_y;
  return {(unit - tile * work.output_blocks) * kOutputs, (tile - row * work.tiles_x) * kTileColumns,
          (row - n * work.tiles_y) * kRows, n};
}

// Goes round the stages; the phase changes every time.
struct Stage {
  int index;
  unsigned phase;
  __device__ void next(int stages) {
    if (++index < stages) return;
    index = 0;
    phase ^= 1;
  }
};

// Stages are filled by the loading warp and emptied by the multiplying warps.
struct TileBarriers {
  Barrier field_full[kFieldStages], field_empty[kFieldStages];
  Barrier weight_full[kMostWeightStages], weight_empty[kMostWeightStages];
  Barrier ready;   // the buffer of the result is free, and holds the residual
  Barrier staged;  // it holds the result

  __device__ void init(int weight_stages) {
    for (int i = 0; i < kFieldStages; ++i) {
      field_full[i].init(1);
      field_empty[i].init(kMultiplyWarps);
    }
    for (int i = 0; i < weight_stages; ++i) {
      weight_full[i].init(1);
      weight_empty[i].init(kMultiplyWarps);
    }
    ready.init(1);
    staged.init(kMultiplyWarps);
    publish_barriers();
  }
};

// Where things are in shared memory, and what all warps go through in the same order.
//
// In a backward pass the roles of inputs and outputs are exchanged: weights are transposed, and
// their cells are in the opposite order.
template <int kRows, int kOutputs, int kSplit, bool kBackward>
struct TileBlock {
  static constexpr int kWeightBytes = kOutputs * kChunkBytes;
  static constexpr int kSliceBytes = kTileColumns * kRows * kChunkBytes;  // 64 channels of a result
  static constexpr int kSlices = kOutputs / kChunk;
  static constexpr int kSubtiles = kRows / kSubtileRows;
  static constexpr int kSums = kOutputs / 2;  // of a thread, in a subtile
  static constexpr int kPartBytes = kSubtiles * kSums * kMultiplyThreads * 4;

  static constexpr int result_bytes() { return kSlices * kSliceBytes + (kSplit - 1) * kPartBytes; }

  const TileMaps& maps;
  const TileWork& work;
  TileBarriers& barriers;
  unsigned char *fields, *weights, *result, *parts;
  int rank;  // among the blocks that share a tile

  __device__ TileBlock(const TileMaps& maps, const TileWork& work, TileBarriers& barriers,
                       unsigned char* memory)
      : maps(maps), work(work), barriers(barriers), fields(memory) {
    weights = fields + kFieldStages * work.field_bytes;
    result = weights + work.weight_stages * kWeightBytes;
    parts = result + kSlices * kSliceBytes;
    rank = kSplit > 1 ? static_cast<int>(rank_in_cluster()) : 0;
  }

  template <typename Body>
  __device__ void for_each_unit(const Body& body) const {
    for (int unit = blockIdx.x / kSplit; unit < work.units; unit += gridDim.x / kSplit) {
      body(place_of<kRows, kOutputs>(work, unit));
    }
  }

  // Calls body(segment, its number, chunk) for this block's share.
  template <typename Body>
  __device__ void for_each_chunk(const Body& body) const {
    for (int s = 0; s < work.segment_count; ++s) {
      const Segment& segment = work.segments[s];
      const int end = segment.chunks * (rank + 1) / kSplit;
      for (int chunk = segment.chunks * rank / kSplit; chunk < end; ++chunk) {
        body(segment, s, chunk);
      }
    }
  }

  // By a warp.
  __device__ void load() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Stage field{0, 1}, weight{0, 1};
    for_each_unit([&](const Place& at) {
      for_each_chunk([&](const Segment& segment, int s, int chunk) {
        const int around = segment.kernel - 1;
        Barrier& field_full = barriers.field_full[field.index];
        unsigned char* const to = fields + field.index * work.field_bytes;
        const int x = at.x - segment.border, y = at.y - segment.border;
        barriers.field_empty[field.index].wait(field.phase);
        if (lane == 0) {
          field_full.arrive_and_expect((kTileColumns + around) * (kRows + around) * kChunkBytes);
        }
        if (crosses_edge(x, y, around)) {
          load_periodic(to, field_full, chunk * kChunk, x, y, at.sample);
        } else if (lane == 0) {
          load_box(to, maps.fields[s], field_full, chunk * kChunk, x, y, at.sample);
        }
        field.next(kFieldStages);
        if (lane == 0) {
          for (int tap = 0; tap < segment.kernel * segment.kernel; ++tap) {
            load_weights(weight, segment, chunk, tap, at.output);
            weight.next(work.weight_stages);
          }
        }
        __syncwarp();
      });
    });
  }

  __device__ void load_weights(const Stage& weight, const Segment& segment, int chunk, int tap,
                               int output) const {
    Barrier& full = barriers.weight_full[weight.index];
    unsigned char* const to = weights + weight.index * kWeightBytes;
    const CUtensorMap& map = maps.weights[segment.weights];
    barriers.weight_empty[weight.index].wait(weight.phase);
    full.arrive_and_expect(kWeightBytes);
    if constexpr (kBackward) {
      const int opposite = segment.kernel * segment.kernel - 1 - tap;
      for (int i = 0; i < kSlices; ++i) {
        load_box(to + i * kChunk * kChunkBytes, map, full, output + i * kChunk, opposite,
                 chunk * kChunk, 0);
      }
    } else {
      load_box(to, map, full, segment.first_input + chunk * kChunk, tap, output, 0);
    }
  }

  // Whether the surroundings of a tile, from (x, y) on, reach beyond a periodic field.
  __device__ bool crosses_edge(int x, int y, int around) const {
    return work.width > 0 && (x < 0 || y < 0 || x + kTileColumns + around > work.width ||
                              y + kRows + around > work.height);
  }

  // Tile and surroundings of a 3 x 3 convolution row by row, each by a lane of the warp, whatever
  // lies beyond the field from its other side.
  __device__ void load_periodic(unsigned char* to, Barrier& full, int channel, int x, int y,
                                int sample) const {
    const int row = static_cast<int>(threadIdx.x) % 32;
    if (row >= kRows + 2) return;
    unsigned char* const first = to + row * (kTileColumns + 2) * kChunkBytes;
    const int from = (y + row + work.height) % work.height;
    const int left = (x + work.width) % work.width, right = (x + kTileColumns + 1) % work.width;
    load_box(first, maps.cell, full, channel, left, from, sample);
    load_box(first + kChunkBytes, maps.row, full, channel, x + 1, from, sample);
    load_box(first + (kTileColumns + 1) * kChunkBytes, maps.cell, full, channel, right, from,
             sample);
  }

  __device__ void store() const {
    unsigned phase = 0;
    for_each_unit([&](const Place& at) {
      if (work.residual) {
        barriers.ready.arrive_and_expect(kSlices * kSliceBytes);
        for (int i = 0; i < kSlices; ++i) {
          load_box(result + i * kSliceBytes, maps.residual, barriers.ready, at.output + i * kChunk,
                   at.x, at.y, at.sample);
        }
      } else {
        barriers.ready.arrive();
      }
      barriers.staged.wait(phase);
      phase ^= 1;
      for (int i = 0; i < kSlices; ++i) {
        store_box(maps.out, result + i * kSliceBytes, at.output + i * kChunk, at.x, at.y,
                  at.sample);
      }
      wait_until_stores_have_read();
    });
  }

  // The sums of a thread: of subtile p, [4 j + 2 h + i] is output 8 j + 2 (lane % 4) + i of the
  // cell in column lane / 4 of row 2 (warp % 4) + h.
  using Sums = float[kSubtiles][kSums];

  // Adds up this block's share of a unit, whose stages are the next ones.
  __device__ void add_up(Sums& sums, Stage& field, Stage& weight) const {
    const int group = static_cast<int>(threadIdx.x) / 128,
              lane = static_cast<int>(threadIdx.x) % 32;
    bool add = false;
    Barrier *used_field = nullptr, *used_weight = nullptr;  // by products that may not be done
    for_each_chunk([&](const Segment& segment, int, int) {
      const int pitch = kTileColumns + segment.kernel - 1;
      const std::uint32_t tile = shared_address(fields) + field.index * work.field_bytes +
                                 group * (kTileColumns / 2) * kChunkBytes;
      barriers.field_full[field.index].wait(field.phase);
      for (int dy = 0; dy < segment.kernel; ++dy) {
        for (int dx = 0; dx < segment.kernel; ++dx) {
          barriers.weight_full[weight.index].wait(weight.phase);
          const std::uint64_t a =
              matrix_at(tile + (dy * pitch + dx) * kChunkBytes, pitch * kChunkBytes);
          const std::uint64_t b = matrix_at(shared_address(weights) + weight.index * kWeightBytes,
                                            8 * kChunkBytes, kChunk * kChunkBytes);
          constexpr int kUnit = 16;  // of the addresses in a and b, in bytes
          const int subtile = kSubtileRows * pitch * kChunkBytes / kUnit;
          begin_products();
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            constexpr int kNumbers = 16;
            const int of_a = k * kNumbers * 2 / kUnit;
            const int of_b = kBackward ? k * kNumbers * kChunkBytes / kUnit : of_a;
#pragma unroll
            for (int p = 0; p < kSubtiles; ++p) {
              multiply<kBackward>(sums[p], a + p * subtile + of_a, b + of_b, add || k > 0);
            }
          }
          commit_products();
          add = true;
          wait_for_products<1>();
          if (lane == 0 && used_weight != nullptr) used_weight->arrive();
          if (lane == 0 && used_field != nullptr) used_field->arrive();
          used_field = nullptr;
          used_weight = &barriers.weight_empty[weight.index];
          weight.next(work.weight_stages);
        }
      }
      used_field = &barriers.field_empty[field.index];
      field.next(kFieldStages);
    });
    wait_for_products<0>();
    if (lane == 0) {
      used_weight->arrive();
      used_field->arrive();
    }
    __syncwarp();
  }

  // Block 0 gets the sums of all, in the order of their ranks.
  __device__ void join(Sums& sums) const {
    wait_for_cluster();  // all have begun
    float* const mine = &sums[0][0];
    constexpr int kStep = kMultiplyThreads * sizeof(float4);
    if (rank > 0) {
      const std::uint32_t to = shared_address(parts) + (rank - 1) * kPartBytes +
                               static_cast<int>(threadIdx.x * sizeof(float4));
#pragma unroll
      for (int i = 0; i < kSubtiles * kSums; i += 4) {
        store_in_block(0, to + i / 4 * kStep,
                       make_float4(mine[i], mine[i + 1], mine[i + 2], mine[i + 3]));
      }
    }
    arrive_at_cluster();
    wait_for_cluster();
    if (rank > 0) return;
#pragma unroll
    for (int other = 1; other < kSplit; ++other) {
      const auto* const from =
          reinterpret_cast<const float4*>(parts + (other - 1) * kPartBytes) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kSubtiles * kSums; i += 4) {
        const float4 part = from[i / 4 * kMultiplyThreads];
        mine[i] += part.x;
        mine[i + 1] += part.y;
        mine[i + 2] += part.z;
        mine[i + 3] += part.w;
      }
    }
  }

  // Adds bias and residual and leaves the result where store() takes it.
  __device__ void finish(const Sums& sums, const __nv_bfloat162 (&bias)[kOutputs / 8],
                         unsigned ready_phase) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int column = lane % 8;  // of its half of the tile
    const int place = (warp % 4 * 2 + lane / 8 % 2) * kTileColumns + warp / 4 * 8 + column;
    barriers.ready.wait(ready_phase);
#pragma unroll
    for (int j = 0; j < kOutputs / 8; j += 2) {
      const std::uint32_t slice = shared_address(result) + j / 8 * kSliceBytes +
                                  place * kChunkBytes + ((j + lane / 16) % 8 ^ column) * 16;
#pragma unroll
      for (int p = 0; p < kSubtiles; ++p) {
        const std::uint32_t at = slice + p * kSubtileRows * kTileColumns * kChunkBytes;
        std::uint32_t pairs[4] = {};
        if (work.residual) load_matrices(at, pairs);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          auto& pair = reinterpret_cast<__nv_bfloat162&>(pairs[i]);
          const float2 r = __bfloat1622float2(pair), b = __bfloat1622float2(bias[j + i / 2]);
          const float* const s = &sums[p][(j + i / 2) * 4 + i % 2 * 2];
          pair = __floats2bfloat162_rn(s[0] + (r.x + b.x), s[1] + (r.y + b.y));
        }
        store_matrices(at, pairs);
      }
    }
    publish_to_copies();
    __syncwarp();
    if (lane == 0) barriers.staged.arrive();
  }

  __device__ void multiply_all() const {
    Stage field{0, 0}, weight{0, 0};
    unsigned ready_phase = 0;
    for_each_unit([&](const Place& at) {
      __nv_bfloat162 bias[kOutputs / 8];
#pragma unroll
      for (int j = 0; j < kOutputs / 8; ++j) {
        const int c = at.output + j * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
        bias[j] = work.bias == nullptr ? __nv_bfloat162()
                                       : *reinterpret_cast<const __nv_bfloat162*>(work.bias + c);
      }
      Sums sums;
      add_up(sums, field, weight);
      if constexpr (kSplit > 1) {
        join(sums);
        if (rank > 0) return;
      }
      finish(sums, bias, ready_phase);
      ready_phase ^= 1;
    });
  }
};

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
  begin_after_previous();
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

// Calls body(tiling, how to run it forward, and backward) for all there are. Backward there is
// nothing to split: training has many samples.
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
