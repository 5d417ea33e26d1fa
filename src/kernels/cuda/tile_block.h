// What the blocks of convolve_tiles() do (tile_convolution.h).
//
// A block takes units, tiles of cells and outputs, one after the other. One of its warps copies
// fields and weights to shared memory, 64 channels at a time: a tile with its surroundings, and the
// weights of one cell of the kernel, in stages that go round. Two warpgroups multiply what has
// come. Another warp copies results to memory while they go on, and residuals from there.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/instructions.h"
#include "kernels/cuda/launch.h"

namespace slift::kernels::cuda {

inline constexpr int kTileColumns = 16, kSubtileRows = 8;  // two warpgroups, 8 x 8 cells each
inline constexpr int kChunk = 64;                          // channels multiplied at once
inline constexpr int kChunkBytes = kChunk * 2;             // of a cell or of a row of weights
inline constexpr int kMultiplyWarps = 8, kMultiplyThreads = kMultiplyWarps * 32;
// A warp loads fields, one weights, one stores.
inline constexpr int kTileThreads = kMultiplyThreads + 3 * 32;
inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kFieldStages = 2, kMostWeightStages = 12;
// Of dynamic shared memory; the barriers take a kilobyte.
inline constexpr int kMostBytes = 226 * 1024;
inline constexpr int kMostSegments = 4;

// A part of the sum: a convolution of one field, by rows x columns of the cells of some weights.
// The first of them meets cell (x, y) step + (first_x, first_y) of the field for output (x, y).
// Small, as all that a kernel is given: it waits for each line of memory that this takes.
struct Segment {
  std::int16_t chunks, first_chunk;  // of the field; where they begin in the weights
  std::int8_t field, weights;        // which of each
  std::int8_t rows, columns, first_y, first_x;
  std::int8_t first_cell, row_step, column_step;  // the cells of the weights that take part
  std::int8_t around;                             // cells that a box has beyond its tile's

  __device__ int cells() const { return rows * columns; }
};

__host__ __device__ inline int box_bytes(int tile_rows, int around) {
  return (kTileColumns + around) * (tile_rows + around) * kChunkBytes;
}

struct TileWork {
  Segment segments[kMostSegments];
  int segment_count, step;
  int width, height;                           // of a periodic field, or else 0
  int tiles_x, tiles_y, output_blocks, units;  // a unit is a tile of cells and of outputs
  int quarter;  // outputs of each of the four fields of a growing convolution, or else all
  int field_bytes, weight_stages;  // of a stage; stages
  bool residual, settled_weights;
  const __nv_bfloat16* bias;
};

struct TileMaps {
  CUtensorMap fields[3], weights[2], residual;
  CUtensorMap out;        // of a growing convolution, odd and even rows are a dimension
  CUtensorMap row, cell;  // of a periodic field: boxes of a tile's width, and of one cell
};

struct Place {
  int output, x, y, sample;
  int field;  // of the four, or 0; it begins at (field % 2, field / 2)
};

template <int kRows, int kOutputs>
__device__ Place place_of(const TileWork& work, int unit) {
  const int tile = unit / work.output_blocks, row = tile / work.tiles_x, n = row / work.tiles_y;
  const int output = (unit - tile * work.output_blocks) * kOutputs;
  return {output, (tile - row * work.tiles_x) * kTileColumns, (row - n * work.tiles_y) * kRows, n,
          output / work.quarter};
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

// Stages are filled by the loading warps and emptied by the multiplying warps.
struct TileBarriers {
  Barrier field_full[kFieldStages], field_empty[kFieldStages];
  Barrier weight_full[kMostWeightStages], weight_empty[kMostWeightStages];
  Barrier ready;      // the buffer of the result is free, and holds the residual
  Barrier staged[2];  // it holds the result, by slices
  Barrier joined;     // the other block's sums have come

  // By all threads, several of which share the work; before a barrier of all.
  __device__ void init(unsigned finishing_warps) {
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0 && lane < kMostWeightStages) {
      weight_full[lane].init(1);
      weight_empty[lane].init(kMultiplyWarps);
    } else if (warp == 1 && lane < kFieldStages) {
      field_full[lane].init(1);
      field_empty[lane].init(kMultiplyWarps);
    } else if (warp == 2 && lane == 0) {
      ready.init(1);
      staged[0].init(finishing_warps);
      staged[1].init(finishing_warps);
      joined.init(1);
    } else {
      return;
    }
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
  // Blocks that share a tile finish half of its columns each: those of one warpgroup.
  static_assert(kSplit == 1 || kSplit == 2);
  static constexpr int kColumns = kTileColumns / kSplit;
  static constexpr int kSliceBytes = kColumns * kRows * kChunkBytes;  // 64 channels of a result
  static constexpr int kSlices = kOutputs / kChunk;
  static constexpr int kSubtiles = kRows / kSubtileRows;
  static constexpr int kSums = kOutputs / 2;  // of a thread, in a subtile
  static constexpr int kPartBytes = kSubtiles * kSums * kGroupThreads * 4;

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

  // Calls body(segment, chunk) for this block's share.
  template <typename Body>
  __device__ void for_each_chunk(const Body& body) const {
    for (int s = 0; s < work.segment_count; ++s) {
      const Segment& segment = work.segments[s];
      const int end = segment.chunks * (rank + 1) / kSplit;
      for (int chunk = segment.chunks * rank / kSplit; chunk < end; ++chunk) {
        body(segment, chunk);
      }
    }
  }

  // By a warp.
  __device__ void load_fields() const {
    const bool first_lane = threadIdx.x % 32 == 0;
    Stage stage{0, 1};
    if (first_lane) prefetch(maps.fields[0]);
    begin_after_previous();
    for_each_unit([&](const Place& at) {
      for_each_chunk([&](const Segment& segment, int chunk) {
        Barrier& full = barriers.field_full[stage.index];
        unsigned char* const to = fields + stage.index * work.field_bytes;
        const int x = at.x * work.step + segment.first_x + at.field % 2;
        const int y = at.y * work.step + segment.first_y + at.field / 2;
        barriers.field_empty[stage.index].wait(stage.phase);
        if (first_lane) {
          full.arrive_and_expect(static_cast<unsigned>(box_bytes(kRows, segment.around)));
        }
        if (crosses_edge(x, y)) {
          __syncwarp();
          load_periodic(to, full, chunk * kChunk, x, y, at.sample);
        } else if (first_lane) {
          load_box(to, maps.fields[segment.field], full, chunk * kChunk, x, y, at.sample);
        }
        stage.next(kFieldStages);
      });
    });
  }

  // By a thread; settled ones while the kernel before may still run.
  __device__ void load_weights() const {
    Stage stage{0, 1};
    if (!work.settled_weights) begin_after_previous();
    for_each_unit([&](const Place& at) {
      for_each_chunk([&](const Segment& segment, int chunk) {
        for (int y = 0; y < segment.rows; ++y) {
          for (int x = 0; x < segment.columns; ++x) {
            const int cell = segment.first_cell + y * segment.row_step + x * segment.column_step;
            load_cell(stage, segment, chunk, cell, at.output);
            stage.next(work.weight_stages);
          }
        }
      });
    });
  }

  // The weights of a cell of the kernel.
  __device__ void load_cell(const Stage& stage, const Segment& segment, int chunk, int cell,
                            int output) const {
    Barrier& full = barriers.weight_full[stage.index];
    unsigned char* const to = weights + stage.index * kWeightBytes;
    const CUtensorMap& map = maps.weights[segment.weights];
    barriers.weight_empty[stage.index].wait(stage.phase);
    full.arrive_and_expect(kWeightBytes);
    if constexpr (kBackward) {
      for (int i = 0; i < kSlices; ++i) {
        load_box(to + i * kChunk * kChunkBytes, map, full, output + i * kChunk, cell,
                 chunk * kChunk, 0);
      }
    } else {
      load_box(to, map, full, (segment.first_chunk + chunk) * kChunk, cell, output, 0);
    }
  }

  // Whether a tile and its surroundings, from (x, y) on, reach beyond a periodic field.
  __device__ bool crosses_edge(int x, int y) const {
    return work.width > 0 &&
           (x < 0 || y < 0 || x + kTileColumns + 2 > work.width || y + kRows + 2 > work.height);
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

  // By a thread.
  __device__ void store() const {
    prefetch(maps.out);
    if (work.residual) prefetch(maps.residual);
    if constexpr (kSplit > 1) barriers.joined.arrive_and_expect(kPartBytes);
    begin_after_previous();
    unsigned phase = 0;
    for_each_unit([&](const Place& at) {
      const int x = at.x + rank * kColumns;
      if (work.residual) {
        barriers.ready.arrive_and_expect(kSlices * kSliceBytes);
        for (int i = 0; i < kSlices; ++i) {
          load_box(result + i * kSliceBytes, maps.residual, barriers.ready, at.output + i * kChunk,
                   x, at.y, at.sample);
        }
      } else {
        barriers.ready.arrive();
      }
      const int row = at.field / 2, output = at.output - row * 2 * work.quarter;
      for (int i = 0; i < kSlices; ++i) {
        barriers.staged[i].wait(phase);
        store_box(maps.out, result + i * kSliceBytes, output + i * kChunk, x, row, at.y, at.sample);
      }
      phase ^= 1;
      wait_until_stores_have_read();
    });
  }

  // The sums of a thread: of subtile p, [4 j + 2 h + i] is output 8 j + 2 (lane % 4) + i of the
  // cell in column lane / 4 of row 2 (warp % 4) + h.
  using Sums = float[kSubtiles][kSums];

  // Adds up this block's share of a unit, whose stages are the next ones.
  __device__ void add_up(Sums& sums, Stage& field, Stage& weight) const {
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads,
              lane = static_cast<int>(threadIdx.x) % 32;
    bool add = false;
    Barrier *used_field = nullptr, *used_weight = nullptr;  // by products that may not be done
    for_each_chunk([&](const Segment& segment, int) {
      const int pitch = kTileColumns + segment.around;
      const std::uint32_t tile = shared_address(fields) + field.index * work.field_bytes +
                                 group * (kTileColumns / 2) * kChunkBytes;
      barriers.field_full[field.index].wait(field.phase);
      int cell = 0, left = segment.columns;  // of the box; in this row
      for (int n = segment.cells(); n > 0; --n) {
        barriers.weight_full[weight.index].wait(weight.phase);
        const std::uint64_t a = matrix_at(tile + cell * kChunkBytes, pitch * kChunkBytes);
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
        ++cell;
        if (--left == 0) {
          left = segment.columns;
          cell += pitch - segment.columns;
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

  // Of two blocks that share a tile, each gets the sums of one warpgroup: says whether this
  // thread's are complete, which the other block gets otherwise.
  __device__ bool join(Sums& sums) const {
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
    const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
    float* const mine = &sums[0][0];
    if (group != rank) {
      const std::uint32_t to = shared_address(parts) + thread * static_cast<int>(sizeof(float4));
#pragma unroll
      for (int i = 0; i < kSubtiles * kSums; i += 4) {
        send_to_block(group, to + i * kGroupThreads * 4, barriers.joined,
                      make_float4(mine[i], mine[i + 1], mine[i + 2], mine[i + 3]));
      }
      return false;
    }
    barriers.joined.wait_for_cluster(0);
    const auto* const from = reinterpret_cast<const float4*>(parts) + thread;
#pragma unroll
    for (int i = 0; i < kSubtiles * kSums; i += 4) {
      const float4 part = from[i / 4 * kGroupThreads];
      mine[i] += part.x;
      mine[i + 1] += part.y;
      mine[i + 2] += part.z;
      mine[i + 3] += part.w;
    }
    return true;
  }

  // Adds bias and residual and leaves the result where store() takes it.
  __device__ void finish(const Sums& sums, const __nv_bfloat162 (&bias)[kOutputs / 8],
                         unsigned ready_phase) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int column = lane % 8;  // of its half of the tile
    const int first_column = kSplit == 1 ? warp / 4 * 8 : 0;
    const int place = (warp % 4 * 2 + lane / 8 % 2) * kColumns + first_column + column;
    barriers.ready.wait(ready_phase);
#pragma unroll
    for (int j = 0; j < kOutputs / 8; j += 2) {
      const std::uint32_t slice = shared_address(result) + j / 8 * kSliceBytes +
                                  place * kChunkBytes + ((j + lane / 16) % 8 ^ column) * 16;
#pragma unroll
      for (int p = 0; p < kSubtiles; ++p) {
        const std::uint32_t at = slice + p * kSubtileRows * kColumns * kChunkBytes;
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
      if (j % 8 == 6) {  // the last of a slice
        publish_to_copies();
        __syncwarp();
        if (lane == 0) barriers.staged[j / 8].arrive();
      }
    }
  }

  __device__ void multiply_all() const {
    if (!work.settled_weights) begin_after_previous();  // which goes for the bias, too
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
        if (!join(sums)) return;
      }
      finish(sums, bias, ready_phase);
      ready_phase ^= 1;
    });
  }
};

}  // namespace slift::kernels::cuda
