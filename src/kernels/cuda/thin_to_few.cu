// To 8 channels: the time is that of reading x.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/thin_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kSliceChannels = 32;              // taken at a time, 8 per lane
constexpr int kSliceCells = 32;                 // columns of x that a strip sees
constexpr int kSliceEights = kSliceCells / 8;   // a lane has one cell of each eight
constexpr int kSliceColumns = kSliceCells - 2;  // columns of y that it gives
constexpr int kSliceStages = 4;

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
      multiply_cells({upper.x, lower.x, upper.y, lower.y}, {w[x].x, w[x].y}, sums[x][f]);
    }
  }
  for (int x = 0; x < 3; ++x) {
    for (int f = 0; f < kSliceEights / 2; ++f) {
      const uint4 &upper = cells[2 * f], &lower = cells[2 * f + 1];
      multiply_cells({upper.z, lower.z, upper.w, lower.w}, {w[x].z, w[x].w}, sums[x][f]);
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
__global__ void __launch_bounds__(kThinThreads, kThinBlocks) to_few(ThinWork work) {
  extern __shared__ uint4 shared_memory[];
  if (!work.settled_weights) begin_after_previous();
  const int slices = (work.inputs + kSliceChannels - 1) / kSliceChannels;
  for (int i = static_cast<int>(threadIdx.x); i < kTaps * slices * 32; i += kThinThreads) {
    const int output = i % 32 / 4, tap = i / 32 % kTaps;
    const int channel = i / 32 / kTaps * kSliceChannels + i % 4 * 8;
    const BFloat16* const from = work.w + (output * kTaps + tap) * work.inputs + channel;
    shared_memory[i] =
        channel < work.inputs ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
  }
  if (work.settled_weights) begin_after_previous();
  __syncthreads();
  const ThinWarp warp(work);
  if (warp.index >= work.warps) return;
  const int g = warp.lane / 4, t = warp.lane % 4, first_column = warp.strip * kSliceColumns;
  uint4* const ring =
      shared_memory +
      (kTaps * slices + warp.index % kThinWarps * kSliceStages * kSliceEights) * 32 + warp.lane;
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
          const uint4* const weights = shared_memory + slice * kTaps * 32 + warp.lane;
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

}  // namespace

void convolve_to_few(const ConvShape& shape, const ConvOperands& operands, cudaStream_t stream) {
  const ThinWork work = thin_work(shape, operands, kSliceColumns, kFewOutputs);
  const int slices = (work.inputs + kSliceChannels - 1) / kSliceChannels;
  const int packs = 32 * (kTaps * slices + kThinWarps * kSliceStages * kSliceEights);
  const int bytes = packs * static_cast<int>(sizeof(uint4));
  cudaFuncSetAttribute(to_few, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  launch_early(to_few, blocks_of(work), kThinThreads, bytes, stream, work);
  check_launch("convolve_to_few");
}

}  // namespace slift::kernels::cuda
