// What the two kernels of thin_convolution.h share.
//
// A warp walks down a strip of columns by itself, so that it reads a row of x once and waits for
// nobody, and multiplies by mma.sync m16n8k16: 16 cells by 8 outputs. Lane (g, t) = (lane / 4, lane
// % 4) holds of cells g and g + 8, or of output g, the 4 of 16 channels at places 2 t, 2 t + 1,
// 2 t + 8 and 2 t + 9. As a sum may take channels in any order, if only x and w agree, these are 4
// that lie side by side in memory. It receives the sums of cells g and g + 8 and outputs 2 t and
// 2 t + 1.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/instructions.h"
#include "kernels/cuda/packs.h"

namespace slift::kernels::cuda {

inline constexpr int kThinWarps = 4;  // of a block
inline constexpr int kThinThreads = 32 * kThinWarps;
inline constexpr int kThinBlocks = 3;  // on a multiprocessor at a time: 168 registers
inline constexpr int kTaps = 9;

inline constexpr int kFewOutputs = 8;
inline constexpr int kFewInputs = 16;

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
  bool settled_weights;  // of ConvOperands; bias included
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
inline __device__ void multiply_cells(const uint4& cells, uint2 weights, float (&sums)[4]) {
  multiply_add(sums, cells.x, cells.y, cells.z, cells.w, weights.x, weights.y);
}

// For as many warps as run at a time, or fewer where shares were not worth the two rows of x that
// neighbours both read.
inline ThinWork thin_work(const ConvShape& shape, const ConvOperands& operands,
                          std::int64_t strip_columns, std::int64_t group_outputs) {
  constexpr std::int64_t kMultiprocessors = 132;  // of others a part is idle at the end
  constexpr std::int64_t kSmallestShare = 2;
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
  work.settled_weights = operands.settled_weights;
  return work;
}

inline unsigned blocks_of(const ThinWork& work) {
  return static_cast<unsigned>((work.warps + kThinWarps - 1) / kThinWarps);
}

// Enqueue what convolve_thin() says, to 8 and from 16 channels.
void convolve_to_few(const ConvShape& shape, const ConvOperands& operands, cudaStream_t stream);
void convolve_from_few(const ConvShape& shape, const ConvOperands& operands, cudaStream_t stream);

}  // namespace slift::kernels::cuda
