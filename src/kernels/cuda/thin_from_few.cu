// From 16 channels: the time is that of writing y, or of the products.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/thin_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kWarpColumns = 16;
constexpr int kRowPacks = (kWarpColumns + 2) * 2;  // of 8 channels, of x
constexpr int kRowStages = 8;
constexpr int kWarpOutputs = 32;
constexpr int kWarpTiles = kWarpOutputs / 8;

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
__global__ void __launch_bounds__(kThinThreads, kThinBlocks) from_few(ThinWork work) {
  __shared__ uint4 rings[kThinWarps][kRowStages * kRowPacks];
  __shared__ float2 biases[kThinWarps][kWarpOutputs / 2];
  const ThinWarp warp(work);
  if (!work.settled_weights) begin_after_previous();
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
  if (work.settled_weights) begin_after_previous();
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
            multiply_cells(cells[tap % 3], weights[tap][j], sums[j]);
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

}  // namespace

void convolve_from_few(const ConvShape& shape, const ConvOperands& operands, cudaStream_t stream) {
  const ThinWork work = thin_work(shape, operands, kWarpColumns, kWarpOutputs);
  launch_early(from_few, blocks_of(work), kThinThreads, 0, stream, work);
  check_launch("convolve_from_few");
}

}  // namespace slift::kernels::cuda
