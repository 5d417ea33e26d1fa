// In both kernels a warp walks down a strip of columns by itself, so that it reads a row of x once
// and waits for nobody, and multiplies by mma.sync m16n8k16: 16 cells by 8 outputs. Lane (g, t) =
// (lane / 4, lane % 4) holds of cells g and g + 8, or of output g, the 4 of 16 channels at places
// 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. As a sum may take channels in any order, if only x and w
// agree, these are 4 that lie side by side in memory. It receives the sums of cells g and g + 8 and
// outputs 2 t and 2 t + 1.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/cuda/thin_convolution.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kThinWarps = 4;  // of a block
constexpr int kThinThreads = 32 * kThinWarps;
constexpr int kThinBlocks = 3;  // on a multiprocessor at a time: 168 registers
constexpr int kTaps = 9;

// To few, that is 8 outputs.
constexpr int kFewOutputs = 8;
constexpr int kMostInputs = 256;
constexpr int kSliceChannels = 32;              // taken at a time, 8 per lane
constexpr int kSliceCells = 32;                 // columns of x that a strip sees
constexpr int kSliceEights = kSliceCells / 8;   // a lane has one cell of each eight
constexpr int kSliceColumns = kSliceCells - 2;  // columns of y that it gives
constexpr int kSliceStages = 4;

// From few, that is 16 inputs.
constexpr int kFewInputs = 16;
constexpr int kWarpColumns = 16;
constexpr int kRowPacks = (kWarpColumns + 2) * 2;  // of 8 channels, of x
constexpr int kRowStages = 8;
constexpr int kWarpOutputs = 32;
constexpr int kWarpTiles = kWarpOutputs / 8;

// A warp takes a strip of columns, a group of outputs, and of these a share of the rows of y, those
// of all samples in turn.
struct ThinWork {
  const BFloat16 *x, *w, *bias;  // bias may be null
  BFloat16* y;
  int height, width, inputs;  // of x
  int out_height, out_width, outputs;
  int border;
  int strips, groups;
  int rows, share, warps;
};

struct ThinWarp {
  __device__ explicit ThinWarp(const ThinWork& work)
      : index(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {
    group = index % work.groups;
    strip = index / work.groups % work.strips;
    first = index / work.groups / work.strips * work.share;
    end = min(first + work.share, work.rows);
  }
  int index, lane, group, strip;
  int first, end;  // of its rows
};

// Rows of one sample.
struct ThinPiece {
  __device__ ThinPiece(const ThinWork& work, int row, int end) {
    const int sample = row / work.out_height;
    first = row - sample * work.out_height;
    rows = min(end - row, work.out_height - first);
    x = work.x + static_cast<std::int64_t>(sample) * work.height * work.width * work.inputs;
    y = work.y + static_cast<std::int64_t>(row) * work.out_width * work.outputs;
  }
  int first, rows;
  const BFloat16* x;  // the sample's first row
  BFloat16* y;        // the piece's first row
};

// `cells` holds two channels of cell g, of g + 8, and the two others of both.
__device__ void multiply_add(const uint4& cells, uint2 weights, float (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(cells.x), "r"(cells.y), "r"(cells.z), "r"(cells.w), "r"(weights.x), "r"(weights.y));
}

// Starts copying 16 bytes to shared memory; zeros, and nothing is read, if not `wanted`. What other
// warps of the block copy as well should be kept near. The second-level cache is told to read on to
// the next multiple of 256 bytes: memory is slow at less.
template <bool kKeep>
__device__ void start_copy(const BFloat16* from, uint4* to, bool wanted) {
  const auto where = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = wanted ? 16 : 0;
  if constexpr (kKeep) {
    asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], 16, %2;"
                 :
                 : "r"(where), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                 :
                 : "r"(where), "l"(from), "r"(bytes)
                 : "memory");
  }
}
__device__ void close_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int kOpen>
__device__ void await_copies() {  // all but the last kOpen that were closed
  asm volatile("cp.async.wait_group %0;" : : "n"(kOpen) : "memory");
}

// Slices of x, the cells of a row by 32 channels, on their way to registers. Every lane copies what
// it will use itself to a ring in shared memory, so that nobody has to wait but for his own copies.
class SliceRing {
 public:
  // `ring` is the lane's, with steps of 32 from one pack to the next.
  __device__ SliceRing(const ThinWork& work, const ThinWarp& warp, const ThinPiece& piece,
                       uint4* ring)
      : work_(work), ring_(ring), row_(piece.first - work.border) {
    const int column = warp.strip * kSliceColumns - work.border + warp.lane / 4;
    first_channel_ = channel_ = warp.lane % 4 * 8;
    from_ = piece.x + (static_cast<std::int64_t>(row_) * work.width + column) * work.inputs;
    end_row_ = row_ + piece.rows + 2;
    for (int e = 0; e < kSliceEights; ++e) {
      const bool inside = column + 8 * e >= 0 && column + 8 * e < work.width;
      columns_inside_ |= static_cast<unsigned>(inside) << e;
    }
    for (int stage = 0; stage < kSliceStages - 1; ++stage) start_next(stage);
  }

  // The next slice: cells 8 e + g, channels 8 t to 8 t + 7.
  __device__ void take(uint4 (&cells)[kSliceEights]) {
    await_copies<kSliceStages - 2>();
    for (int e = 0; e < kSliceEights; ++e) cells[e] = ring_[(stage_ * kSliceEights + e) * 32];
    start_next((stage_ + kSliceStages - 1) % kSliceStages);  // taken before this one
    stage_ = (stage_ + 1) % kSliceStages;
  }

 private:
  __device__ void start_next(int stage) {
    if (row_ < end_row_) {
      const bool row_inside = row_ >= 0 && row_ < work_.height && channel_ < work_.inputs;
      const unsigned inside = row_inside ? columns_inside_ : 0;
      const BFloat16* from = from_ + channel_;
      for (int e = 0; e < kSliceEights; ++e) {
        start_copy<false>(from, ring_ + (stage * kSliceEights + e) * 32, (inside >> e & 1) != 0);
        from += 8 * work_.inputs;
      }
      channel_ += kSliceChannels;
      if (channel_ - first_channel_ >= work_.inputs) {
        channel_ = first_channel_;
        from_ += work_.width * work_.inputs;
        ++row_;
      }
    }
    close_copies();  // after the last slice an empty set, so that take() counts on
  }

  const ThinWork& work_;
  uint4* const ring_;
  const BFloat16* from_;  // cell g and channel 0 of the row that comes next, possibly outside x
  int row_, end_row_, channel_, first_channel_;
  int stage_ = 0;
  unsigned columns_inside_ = 0;  // bit e: cell 8 e + g
};

// Of a row of y, by the columns of the taps; outputs 2 t and 2 t + 1 of cell 8 e + g of x are at
// [e / 2][e % 2 * 2] and behind.
using Sums = float[3][kSliceEights / 2][4];

// Of one row of taps. Half of the channels for all sums, then the other half, so that no product
// waits for the one before.
__device__ __forceinline__ void add_products(const uint4 (&cells)[kSliceEights],
                                             const uint4* weights, Sums& sums) {
  uint4 w[3];
  for (int x = 0; x < 3; ++x) w[x] = weights[x * 32];
  for (int x = 0; x < 3; ++x) {
    for (int f = 0; f < kSliceEights / 2; ++f) {
      const uint4 &upper = cells[2 * f], &lower = cells[2 * f + 1];
      multiply_add({upper.x, lower.x, upper.y, lower.y}, {w[x].x, w[x].y}, sums[x][f]);
    }
  }
  for (int x = 0; x < 3; ++x) {
    for (int f = 0; f < kSliceEights / 2; ++f) {
      const uint4 &upper = cells[2 * f], &lower = cells[2 * f + 1];
      multiply_add({upper.z, lower.z, upper.w, lower.w}, {w[x].z, w[x].w}, sums[x][f]);
    }
  }
}

// Cell n of y, all but the last two: the sum of cells n, n + 1 and n + 2 of the three columns.
__device__ __forceinline__ void add_columns(const Sums& sums, int lane,
                                            float (&totals)[kSliceEights][2]) {
  float second[kSliceEights + 1][2] = {}, third[kSliceEights + 1][2] = {};
  for (int e = 0; e < kSliceEights; ++e) {
    for (int i = 0; i < 2; ++i) {
      second[e][i] = __shfl_sync(~0u, sums[1][e / 2][e % 2 * 2 + i], lane + 4);
      third[e][i] = __shfl_sync(~0u, sums[2][e / 2][e % 2 * 2 + i], lane + 8);
    }
  }
  const int g = lane / 4;
  for (int e = 0; e < kSliceEights; ++e) {
    for (int i = 0; i < 2; ++i) {
      totals[e][i] = sums[0][e / 2][e % 2 * 2 + i] + (g < 7 ? second[e][i] : second[e + 1][i]) +
                     (g < 6 ? third[e][i] : third[e + 1][i]);
    }
  }
}

// A row of x belongs to three rows of y, and a column to three columns. The sums of all nine are
// kept apart, so that every value is multiplied where it lies; the three columns of a row of y meet
// when it is complete.
//   shared memory: w as [slices][9 taps][32 lanes], the rings as [4 warps][stages][4][32 lanes]
__global__ void __launch_bounds__(kThinThreads, kThinBlocks) convolve_to_few(ThinWork work) {
  extern __shared__ uint4 shared[];
  const int slices = (work.inputs + kSliceChannels - 1) / kSliceChannels;
  for (int i = static_cast<int>(threadIdx.x); i < kTaps * slices * 32; i += kThinThreads) {
    const int output = i % 32 / 4, tap = i / 32 % kTaps;
    const int channel = i / 32 / kTaps * kSliceChannels + i % 4 * 8;
    const BFloat16* const from = work.w + (output * kTaps + tap) * work.inputs + channel;
    shared[i] = channel < work.inputs ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
  }
  __syncthreads();
  const ThinWarp warp(work);
  if (warp.index >= work.warps) return;
  const int g = warp.lane / 4, t = warp.lane % 4, first_column = warp.strip * kSliceColumns;
  uint4* const ring =
      shared + (kTaps * slices + warp.index % kThinWarps * kSliceStages * kSliceEights) * 32 +
      warp.lane;
  float bias[2] = {};
  for (int i = 0; i < 2 && work.bias != nullptr; ++i) bias[i] = to_float(work.bias[2 * t + i]);

  for (int begin = warp.first; begin < warp.end;) {
    const ThinPiece piece(work, begin, warp.end);
    begin += piece.rows;
    SliceRing coming(work, warp, piece, ring);
    Sums sums[3] = {};
    for (int row = 0; row < piece.rows + 2; row += 3) {
#pragma unroll
      for (int i = 0; i < 3; ++i) {  // so that sums need not be moved
        if (row + i == piece.rows + 2) break;
        Sums& ended = sums[i];
        for (int slice = 0; slice < slices; ++slice) {
          uint4 cells[kSliceEights];
          coming.take(cells);
          const uint4* const weights = shared + slice * kTaps * 32 + warp.lane;
          add_products(cells, weights, sums[(i + 2) % 3]);
          add_products(cells, weights + 3 * 32, sums[(i + 1) % 3]);
          add_products(cells, weights + 6 * 32, ended);
        }
        if (row + i >= 2) {
          float row_of_y[kSliceEights][2];
          add_columns(ended, warp.lane, row_of_y);
          BFloat16* const to = piece.y + (row + i - 2) * work.out_width * kFewOutputs + 2 * t;
          for (int e = 0; e < kSliceEights; ++e) {
            const int cell = 8 * e + g, column = first_column + cell;
            if (cell < kSliceColumns && column < work.out_width) {
              from_floats(row_of_y[e][0] + bias[0], row_of_y[e][1] + bias[1],
                          to + column * kFewOutputs);
            }
          }
        }
        for (auto& column : ended) {
          for (auto& tile : column) {
            for (float& sum : tile) sum = 0;
          }
        }
      }
    }
  }
}

// Rows of x of 16 channels, the cells of a strip and one on each side, on their way to registers.
class RowRing {
 public:
  // `ring` is the warp's, [kRowStages][kRowPacks].
  __device__ RowRing(const ThinWork& work, const ThinWarp& warp, const ThinPiece& piece,
                     uint4* ring)
      : work_(work), ring_(ring), lane_(warp.lane), row_(piece.first - work.border) {
    const int column = warp.strip * kWarpColumns - work.border;
    for (int i = 0; i < 2; ++i) {
      const int of_pack = column + (lane_ + 32 * i) / 2;
      inside_[i] = of_pack >= 0 && of_pack < work.width;
    }
    from_ =
        piece.x + (static_cast<std::int64_t>(row_) * work.width + column) * kFewInputs + lane_ * 8;
    end_row_ = row_ + piece.rows + 2;
    __syncwarp();  // until all have read what an earlier ring left here
    for (int stage = 0; stage < kRowStages - 1; ++stage) start_next(stage);
  }

  // The next row as the columns of the taps see it; nothing of use after the last.
  __device__ void take(uint4 (&columns)[3]) {
    await_copies<kRowStages - 2>();
    __syncwarp();  // the others' copies are there, and they have read what the next one replaces
    start_next((stage_ + kRowStages - 1) % kRowStages);
    const auto* const cells = reinterpret_cast<const uint2*>(ring_ + stage_ * kRowPacks) + lane_;
    for (int x = 0; x < 3; ++x) {
      const uint2 upper = cells[x * 4], lower = cells[(x + 8) * 4];
      columns[x] = {upper.x, lower.x, upper.y, lower.y};
    }
    stage_ = (stage_ + 1) % kRowStages;
  }

 private:
  __device__ void start_next(int stage) {
    if (row_ < end_row_) {
      const bool row_inside = row_ >= 0 && row_ < work_.height;
      uint4* const to = ring_ + stage * kRowPacks + lane_;
      start_copy<true>(from_, to, row_inside && inside_[0]);
      if (lane_ < kRowPacks - 32) {
        start_copy<true>(from_ + 32 * 8, to + 32, row_inside && inside_[1]);
      }
      from_ += work_.width * kFewInputs;
      ++row_;
    }
    close_copies();
  }

  const ThinWork& work_;
  uint4* const ring_;
  const BFloat16* from_;  // the lane's first pack, of two at most, of the row that comes next,
                          // possibly outside x
  const int lane_;
  int row_, end_row_, stage_ = 0;
  bool inside_[2];  // columns of its packs
};

// The weights of 32 outputs and three rows of x stay in registers. Column n of tile j is output
// 8 (n / 2) + 2 j + n % 2 of the 32, so that a lane receives 8 that lie side by side.
__global__ void __launch_bounds__(kThinThreads, kThinBlocks) convolve_from_few(ThinWork work) {
  __shared__ uint4 rings[kThinWarps][kRowStages * kRowPacks];
  __shared__ float2 biases[kThinWarps][kWarpOutputs / 2];
  const ThinWarp warp(work);
  if (warp.index >= work.warps) return;
  const int g = warp.lane / 4, t = warp.lane % 4;
  const int first_column = warp.strip * kWarpColumns;
  const int first_output = warp.group * kWarpOutputs + 8 * t;
  uint2 weights[kTaps][kWarpTiles];
  for (int j = 0; j < kWarpTiles; ++j) {
    const int output = warp.group * kWarpOutputs + g / 2 * 8 + 2 * j + g % 2;
    for (int tap = 0; tap < kTaps; ++tap) {
      const BFloat16* const from = work.w + (output * kTaps + tap) * kFewInputs + 4 * t;
      weights[tap][j] =
          output < work.outputs ? __ldg(reinterpret_cast<const uint2*>(from)) : uint2{};
    }
  }
  float2* const bias = biases[warp.index % kThinWarps];
  if (warp.lane < kWarpOutputs / 2) {
    const int output = warp.group * kWarpOutputs + 2 * warp.lane;
    const bool has_bias = work.bias != nullptr && output < work.outputs;
    bias[warp.lane] =
        has_bias ? make_float2(to_float(work.bias[output]), to_float(work.bias[output + 1]))
                 : float2{};
  }
  __syncwarp();
  bool wanted[2];  // whether cells g and g + 8 are in y
  for (int half = 0; half < 2; ++half) {
    wanted[half] = first_column + 8 * half + g < work.out_width && first_output < work.outputs;
  }

  for (int begin = warp.first; begin < warp.end;) {
    const ThinPiece piece(work, begin, warp.end);
    begin += piece.rows;
    RowRing coming(work, warp, piece, rings[warp.index % kThinWarps]);
    uint4 seen[3][3];  // the rows of x that this row of y sees, by columns of the taps
    for (auto& row : seen) coming.take(row);
    BFloat16* to = piece.y + (first_column + g) * work.outputs + first_output;
    for (int row = 0; row < piece.rows; row += 3) {
#pragma unroll
      for (int i = 0; i < 3; ++i) {  // so that seen[] need not be shifted
        if (row + i == piece.rows) break;
        float sums[kWarpTiles][4];
        for (int j = 0; j < kWarpTiles; ++j) {
          const float2 start = bias[kWarpTiles * t + j];
          sums[j][0] = sums[j][2] = start.x;
          sums[j][1] = sums[j][3] = start.y;
        }
        for (int tap = 0; tap < kTaps; ++tap) {
          auto& cells = seen[(i + tap / 3) % 3];
          for (int j = 0; j < kWarpTiles; ++j) {
            multiply_add(cells[tap % 3], weights[tap][j], sums[j]);
          }
          if (tap == 2) coming.take(cells);  // which are needed no longer
        }
        for (int half = 0; half < 2; ++half) {
          float values[8];
          for (int k = 0; k < 8; ++k) values[k] = sums[k / 2][2 * half + k % 2];
          if (wanted[half]) store(values, to + 8 * half * work.outputs);
        }
        to += work.out_width * work.outputs;
      }
    }
  }
}

bool goes_to_few(const ConvShape& shape) {
  return shape.outputs == kFewOutputs && shape.inputs % 8 == 0 && shape.inputs <= kMostInputs;
}

bool comes_from_few(const ConvShape& shape) {
  return shape.inputs == kFewInputs && shape.outputs % 8 == 0;
}

// For as many warps as run at a time, or fewer where shares were not worth the two rows of x that
// neighbours both read.
ThinWork divide(const ConvShape& shape, const ConvOperands& operands, std::int64_t strip_columns,
                std::int64_t group_outputs) {
  constexpr std::int64_t kMultiprocessors = 132, kSmallestShare = 4;
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t strips = divide_up(shape.out_width(), strip_columns);
  const std::int64_t groups = divide_up(shape.outputs, group_outputs);
  const std::int64_t rows = shape.batch * shape.out_height();
  const std::int64_t most_shares =
      std::max<std::int64_t>(kMultiprocessors * kThinBlocks * kThinWarps / (strips * groups), 1);
  const std::int64_t share = std::max(divide_up(rows, most_shares), kSmallestShare);
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  ThinWork work;
  work.x = static_cast<const BFloat16*>(operands.x);
  work.w = static_cast<const BFloat16*>(operands.w);
  work.bias = static_cast<const BFloat16*>(operands.bias);
  work.y = static_cast<BFloat16*>(const_cast<void*>(operands.y));
  work.height = narrow(shape.height);
  work.width = narrow(shape.width);
  work.inputs = narrow(shape.inputs);
  work.out_height = narrow(shape.out_height());
  work.out_width = narrow(shape.out_width());
  work.outputs = narrow(shape.outputs);
  work.border = narrow(shape.border);
  work.strips = narrow(strips);
  work.groups = narrow(groups);
  work.rows = narrow(rows);
  work.share = narrow(share);
  work.warps = narrow(divide_up(rows, share) * strips * groups);
  return work;
}

}  // namespace

bool can_convolve_thin(const ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  return problem.pass == ConvPass::kForward && problem.type == ConvType::kBFloat16 &&
         !problem.residual && shape.kernel == 3 && shape.stride == 1 && shape.border <= 1 &&
         (goes_to_few(shape) || comes_from_few(shape));
}

void convolve_thin(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
  const bool to_few = goes_to_few(problem.shape);
  const ThinWork work = to_few ? divide(problem.shape, operands, kSliceColumns, kFewOutputs)
                               : divide(problem.shape, operands, kWarpColumns, kWarpOutputs);
  const auto blocks = static_cast<unsigned>((work.warps + kThinWarps - 1) / kThinWarps);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (to_few) {
    const int slices = (work.inputs + kSliceChannels - 1) / kSliceChannels;
    const int packs = 32 * (kTaps * slices + kThinWarps * kSliceStages * kSliceEights);
    const int bytes = packs * static_cast<int>(sizeof(uint4));
    cudaFuncSetAttribute(convolve_to_few, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    convolve_to_few<<<blocks, kThinThreads, static_cast<std::size_t>(bytes), queue>>>(work);
  } else {
    convolve_from_few<<<blocks, kThinThreads, 0, queue>>>(work);
  }
  check_launch("convolve_thin");
}

}  // namespace slift::kernels::cuda
