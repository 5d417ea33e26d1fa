// What the blocks of convolve_tiles() do (tile_convolution.h).
//
// A block takes units, tiles of cells and outputs, one after the other. One of its warps copies
// fields and weights to shared memory, 64 channels at a time: a tile with its surroundings, and the
// weights of one cell of the kernel, in stages that go round. Two warpgroups multiply what has
// come. Another warp copies results to memory while they go on, and residuals from there.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/hopper.h"
#include "kernels/cuda/launch.h"

namespace slift::kernels::cuda {

inline constexpr int kTileColumns = 16, kSubtileRows = 8;  // two warpgroups, 8 x 8 cells each
inline constexpr int kChunk = 64;                          // channels multiplied at once
inline constexpr int kChunkBytes = kChunk * 2;             // of a cell or of a row of weights
inline constexpr int kMultiplyWarps = 8, kMultiplyThreads = kMultiplyWarps * 32;
inline constexpr int kTileThreads = kMultiplyThreads + 2 * 32;  // one warp loads, one stores
inline constexpr int kFieldStages = 2, kMostWeightStages = 12;
// Of dynamic shared memory; the barriers take a kilobyte.
inline constexpr int kMostBytes = 226 * 1024;
inline constexpr int kMostSegments = 4;

// A part of the sum: a convolution of one field, by rows x columns of the cells of some weights.
// Output (x, y) is centred so that its first cell meets (x, y) step + (first_x, first_y).
struct Segment {
  int chunks;
  int rows, columns, first_y, first_x;
  int weights, first_input;               // which weights, and where this field's begin in them
  int first_cell, row_step, column_step;  // the cells of the weights that take part

  __device__ int cells() const { return rows * columns; }
  // Of the weights, for the n-th of the kernel.
  __device__ int cell(int n) const {
    return first_cell + n / columns * row_step + n % columns * column_step;
  }
  __host__ __device__ int box_bytes(int tile_rows) const {
    return (kTileColumns + columns - 1) * (tile_rows + rows - 1) * kChunkBytes;
  }
};

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
  CUtensorMap fields[kMostSegments], weights[2], residual;
  CUtensorMap out[4];     // a growing convolution has four, by odd and even rows and columns
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

  // By a warp. All but settled weights it reads after the kernel before has ended.
  __device__ void load() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Stage field{0, 1}, weight{0, 1};
    int early = 0;  // weights of the first chunk that are on their way
    if (work.settled_weights && lane == 0) {
      const Segment& segment = work.segments[0];
      const Place at = place_of<kRows, kOutputs>(work, static_cast<int>(blockIdx.x) / kSplit);
      const int chunk = segment.chunks * rank / kSplit;
      for (; early < min(work.weight_stages, segment.cells()); ++early) {
        load_weights(weight, segment, chunk, early, at.output);
        weight.next(work.weight_stages);
      }
    }
    begin_after_previous();
    for_each_unit([&](const Place& at) {
      for_each_chunk([&](const Segment& segment, int s, int chunk) {
        Barrier& field_full = barriers.field_full[field.index];
        unsigned char* const to = fields + field.index * work.field_bytes;
        const int x = at.x * work.step + segment.first_x + at.field % 2;
        const int y = at.y * work.step + segment.first_y + at.field / 2;
        barriers.field_empty[field.index].wait(field.phase);
        if (lane == 0) {
          field_full.arrive_and_expect(static_cast<unsigned>(segment.box_bytes(kRows)));
        }
        if (crosses_edge(x, y)) {
          load_periodic(to, field_full, chunk * kChunk, x, y, at.sample);
        } else if (lane == 0) {
          load_box(to, maps.fields[s], field_full, chunk * kChunk, x, y, at.sample);
        }
        field.next(kFieldStages);
        if (lane == 0) {
          for (int n = early; n < segment.cells(); ++n) {
            load_weights(weight, segment, chunk, n, at.output);
            weight.next(work.weight_stages);
          }
          early = 0;
        }
        __syncwarp();
      });
    });
  }

  // Of the n-th cell of the segment's kernel.
  __device__ void load_weights(const Stage& weight, const Segment& segment, int chunk, int n,
                               int output) const {
    Barrier& full = barriers.weight_full[weight.index];
    unsigned char* const to = weights + weight.index * kWeightBytes;
    const CUtensorMap& map = maps.weights[segment.weights];
    barriers.weight_empty[weight.index].wait(weight.phase);
    full.arrive_and_expect(kWeightBytes);
    if constexpr (kBackward) {
      for (int i = 0; i < kSlices; ++i) {
        load_box(to + i * kChunk * kChunkBytes, map, full, output + i * kChunk, segment.cell(n),
                 chunk * kChunk, 0);
      }
    } else {
      load_box(to, map, full, segment.first_input + chunk * kChunk, segment.cell(n), output, 0);
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
        store_box(maps.out[at.field], result + i * kSliceBytes,
                  at.output % work.quarter + i * kChunk, at.x, at.y, at.sample);
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
      const int pitch = kTileColumns + segment.columns - 1;
      const std::uint32_t tile = shared_address(fields) + field.index * work.field_bytes +
                                 group * (kTileColumns / 2) * kChunkBytes;
      barriers.field_full[field.index].wait(field.phase);
      for (int dy = 0; dy < segment.rows; ++dy) {
        for (int dx = 0; dx < segment.columns; ++dx) {
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

}  // namespace slift::kernels::cuda
