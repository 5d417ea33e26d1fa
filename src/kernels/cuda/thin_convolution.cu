// Both kernels let every warp walk down a strip of columns by itself, so that it sees a row of x
// once and nobody waits for anybody, and multiply by mma.sync m16n8k16: 16 cells by 8 outputs. A
// lane (g, t) = (lane / 4, lane % 4) holds cells g and g + 8 and, of 16 products to be summed, 2 t,
// 2 t + 1, 2 t + 8 and 2 t + 9. As sums may take channels in any order, if only x and w agree,
// these four are channels that lie side by side in memory.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/cuda/thin_convolution.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kThinWarps = 4;  // of a block
constexpr int kThinThreads = 32 * kThinWarps;
constexpr int kTaps = 9;

// To few: of 8 outputs.
constexpr int kFewOutputs = 8;
constexpr int kMostInputs = 256;
constexpr int kSliceChannels = 32;              // taken at a time: 8, 16 bytes, per lane
constexpr int kSliceCells = 32;                 // columns of x that a strip needs
constexpr int kStripOutputs = kSliceCells - 2;  // columns of y that it gives
constexpr int kCellGroups = kSliceCells / 8;    // a lane has one cell of each
constexpr int kSliceStages = 4;
constexpr int kToFewBlocks = 4;  // on a multiprocessor at a time

// From few: of 16 inputs.
constexpr int kFewInputs = 16;
constexpr int kWarpOutputs = 32;
constexpr int kWarpTiles = kWarpOutputs / 8;
constexpr int kWarpCells = 16;
constexpr int kFromFewBlocks = 3;

// Work is divided into units of a warp: a band of rows of a strip of columns of a sample, and with
// many outputs a group of them.
struct ThinWork {
  const BFloat16 *x, *w, *bias;  // bias may be null
  BFloat16* y;
  int height, width, channels;  // of x
  int out_height, out_width, outputs;
  int border;
  int groups, strips, bands, band_rows, units;
};

struct ThinUnit {
  __device__ ThinUnit(const ThinWork& work, int unit) {
    group = unit % work.groups;
    unit /= work.groups;
    strip = unit % work.strips;
    unit /= work.strips;
    first_row = unit % work.bands * work.band_rows;
    end_row = min(first_row + work.band_rows, work.out_height);
    const std::int64_t sample = unit / work.bands;
    x = work.x + sample * work.height * work.width * work.channels;
    y = work.y + sample * work.out_height * work.out_width * work.outputs;
  }
  int group, strip, first_row, end_row;  // rows of y
  const BFloat16* x;                     // of the sample
  BFloat16* y;
};

// sums += a b; of `a` the cells g and g + 8, four channels each, `b` those of output g.
__device__ void multiply_add(uint2 upper, uint2 lower, uint2 b, float (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(b.x), "r"(b.y));
}

// Starts copying 16 bytes to shared memory; zeros, and nothing is read, if not `wanted`.
__device__ void start_copy(const void* from, uint4* to, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(wanted ? 16 : 0)
               : "memory");
}
__device__ void close_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int kPending>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

// A row of x belongs to three rows of y, whose sums are kept apart by the column of the tap as
// well: so every value is multiplied where it lies, and the three columns meet when a row of y is
// complete. Slices of x, 32 cells by 32 channels, come ahead through a ring in which every lane
// finds what it has copied itself.
//   shared memory: w as [9 taps][slices][32 lanes], the rings as [warps][stages][4][32 lanes]
__global__ void __launch_bounds__(kThinThreads, kToFewBlocks) convolve_to_few(ThinWork work) {
  extern __shared__ uint4 shared[];
  const int slices = (work.channels + kSliceChannels - 1) / kSliceChannels;
  for (int i = static_cast<int>(threadIdx.x); i < kTaps * slices * 32; i += kThinThreads) {
    const int output = i % 32 / 4, tap = i / 32 / slices;
    const int channel = i / 32 % slices * kSliceChannels + i % 4 * 8;
    const BFloat16* const from = work.w + (output * kTaps + tap) * work.channels + channel;
    shared[i] = channel < work.channels ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{};
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int index = static_cast<int>(blockIdx.x) * kThinWarps + warp;
  if (index >= work.units) return;
  const ThinUnit unit(work, index);
  const int g = lane / 4, t = lane % 4, first_column = unit.strip * kStripOutputs;
  uint4* const ring = shared + kTaps * slices * 32 + warp * kSliceStages * kCellGroups * 32 + lane;

  const int first_x_row = unit.first_row - work.border, first_x_column = first_column - work.border;
  const int rows = unit.end_row - unit.first_row + 2, steps = rows * slices;
  unsigned inside = 0;  // bit e: whether cell 8 e + g is in x, of rows that are
  for (int e = 0; e < kCellGroups; ++e) {
    const int column = first_x_column + 8 * e + g;
    inside |= static_cast<unsigned>(column >= 0 && column < work.width) << e;
  }
  // The lane's part of the next row and slice, which may lie outside x.
  int next_row = first_x_row, next_channel = t * 8;
  const BFloat16* next =
      unit.x +
      (static_cast<std::int64_t>(first_x_row) * work.width + first_x_column + g) * work.channels;
  // In turn for all steps, and for those after the last, which copy nothing.
  const auto fetch = [&](int step) {
    if (step < steps) {
      const bool wanted = next_row >= 0 && next_row < work.height && next_channel < work.channels;
      for (int e = 0; e < kCellGroups; ++e) {
        start_copy(next + 8 * e * work.channels + next_channel,
                   ring + (step % kSliceStages * kCellGroups + e) * 32,
                   wanted && (inside >> e & 1) != 0);
      }
      next_channel += kSliceChannels;
      if (next_channel >= slices * kSliceChannels) {
        next_channel = t * 8;
        next += work.width * work.channels;
        ++next_row;
      }
    }
    close_copies();
  };
  for (int step = 0; step < kSliceStages - 1; ++step) fetch(step);

  float bias[2] = {};
  if (work.bias != nullptr) {
    for (int i = 0; i < 2; ++i) bias[i] = to_float(work.bias[2 * t + i]);
  }
  // Of the rows of y that this row of x ends, continues and begins, and the columns of the tap; of
  // each, cells 8 e + g and outputs 2 t, 2 t + 1 at [e / 2][e % 2 * 2 ...].
  float sums[3][3][kCellGroups / 2][4] = {};
  int step = 0;
  for (int row = 0; row < rows; ++row) {
    for (int slice = 0; slice < slices; ++slice, ++step) {
      await_copies<kSliceStages - 2>();
      uint4 cells[kCellGroups];
      for (int e = 0; e < kCellGroups; ++e) {
        cells[e] = ring[(step % kSliceStages * kCellGroups + e) * 32];
      }
      fetch(step + kSliceStages - 1);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const uint4 w = shared[(tap * slices + slice) * 32 + lane];
        auto& to = sums[2 - tap / 3][tap % 3];
        for (int f = 0; f < kCellGroups / 2; ++f) {
          const uint4 &upper = cells[2 * f], &lower = cells[2 * f + 1];
          multiply_add({upper.x, upper.y}, {lower.x, lower.y}, {w.x, w.y}, to[f]);
          multiply_add({upper.z, upper.w}, {lower.z, lower.w}, {w.z, w.w}, to[f]);
        }
      }
    }
    if (row >= 2) {
      // Cell 8 e + g of y is the sum of the cells 8 e + g, ... + 1 and ... + 2 of the three
      // columns.
      float second[kCellGroups + 1][2] = {}, third[kCellGroups + 1][2] = {};
      for (int e = 0; e < kCellGroups; ++e) {
        for (int i = 0; i < 2; ++i) {
          second[e][i] = __shfl_sync(~0u, sums[0][1][e / 2][e % 2 * 2 + i], lane + 4);
          third[e][i] = __shfl_sync(~0u, sums[0][2][e / 2][e % 2 * 2 + i], lane + 8);
        }
      }
      const std::int64_t out_row = unit.first_row + row - 2;
      BFloat16* const to =
          unit.y + (out_row * work.out_width + first_column + g) * kFewOutputs + 2 * t;
      for (int e = 0; e < kCellGroups; ++e) {
        float total[2];
        for (int i = 0; i < 2; ++i) {
          total[i] = bias[i] + sums[0][0][e / 2][e % 2 * 2 + i] +
                     (g < 7 ? second[e][i] : second[e + 1][i]) +
                     (g < 6 ? third[e][i] : third[e + 1][i]);
        }
        const int cell = 8 * e + g;
        if (cell < kStripOutputs && first_column + cell < work.out_width) {
          from_floats(total[0], total[1], to + 8 * e * kFewOutputs);
        }
      }
    }
    for (int column = 0; column < 3; ++column) {
      for (int f = 0; f < kCellGroups / 2; ++f) {
        for (int i = 0; i < 4; ++i) {
          sums[0][column][f][i] = sums[1][column][f][i];
          sums[1][column][f][i] = sums[2][column][f][i];
          sums[2][column][f][i] = 0;
        }
      }
    }
  }
}

// The weights of 32 outputs and three rows of x stay in registers. Column n of tile j is output
// 8 (n / 2) + 2 j + n % 2 of the warp's, so that a lane ends up with 8 outputs side by side.
__global__ void __launch_bounds__(kThinThreads, kFromFewBlocks) convolve_from_few(ThinWork work) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int index = static_cast<int>(blockIdx.x) * kThinWarps + warp;
  if (index >= work.units) return;
  const ThinUnit unit(work, index);
  const int g = lane / 4, t = lane % 4;

  uint2 weights[kTaps][kWarpTiles];
  for (int j = 0; j < kWarpTiles; ++j) {
    const int output = unit.group * kWarpOutputs + g / 2 * 8 + 2 * j + g % 2;
    for (int tap = 0; tap < kTaps; ++tap) {
      const BFloat16* const from = work.w + (output * kTaps + tap) * kFewInputs + 4 * t;
      weights[tap][j] =
          output < work.outputs ? __ldg(reinterpret_cast<const uint2*>(from)) : uint2{};
    }
  }
  const int first_output = unit.group * kWarpOutputs + 8 * t;
  const bool has_outputs = first_output < work.outputs;
  float bias[8];
  load(work.bias + first_output, bias, work.bias != nullptr && has_outputs);

  // A row of x as the three columns of taps see it: cells g and g + 8 of the strip.
  struct Row {
    uint2 cells[3][2];
  };
  const auto fetch = [&](int out_row) {  // the row of x that the upper taps of this one see
    Row found;
    const int row = out_row - work.border;
    const BFloat16* const from = unit.x + static_cast<std::int64_t>(row) * work.width * kFewInputs;
    for (int tap = 0; tap < 3; ++tap) {
      for (int half = 0; half < 2; ++half) {
        const int column = unit.strip * kWarpCells + 8 * half + g + tap - work.border;
        const bool inside = row >= 0 && row < work.height && column >= 0 && column < work.width;
        found.cells[tap][half] =
            inside ? __ldg(reinterpret_cast<const uint2*>(from + column * kFewInputs + 4 * t))
                   : uint2{};
      }
    }
    return found;
  };
  Row seen[3] = {fetch(unit.first_row), fetch(unit.first_row + 1), fetch(unit.first_row + 2)};
  for (int row = unit.first_row; row < unit.end_row; ++row) {
    const Row next = fetch(row + 3);  // long before it is needed
    float sums[kWarpTiles][4];
    for (int j = 0; j < kWarpTiles; ++j) {
      for (int i = 0; i < 4; ++i) sums[j][i] = bias[2 * j + i % 2];
    }
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const auto& cells = seen[tap / 3].cells[tap % 3];
      for (int j = 0; j < kWarpTiles; ++j) {
        multiply_add(cells[0], cells[1], weights[tap][j], sums[j]);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const int column = unit.strip * kWarpCells + 8 * half + g;
      if (column >= work.out_width || !has_outputs) continue;
      float values[8];
      for (int i = 0; i < 8; ++i) values[i] = sums[i / 2][2 * half + i % 2];
      const std::int64_t cell = static_cast<std::int64_t>(row) * work.out_width + column;
      store(values, unit.y + cell * work.outputs + first_output);
    }
    seen[0] = seen[1];
    seen[1] = seen[2];
    seen[2] = next;
  }
}

bool goes_to_few(const ConvShape& shape) {
  return shape.outputs == kFewOutputs && shape.inputs <= kMostInputs && shape.inputs % 8 == 0;
}

bool comes_from_few(const ConvShape& shape) {
  return shape.inputs == kFewInputs && shape.outputs % 8 == 0;
}

// With at most as many bands as give `most_units`, and none of fewer rows than is worth the two
// that bands have in common.
ThinWork divide(const ConvShape& shape, const ConvOperands& operands, std::int64_t groups,
                std::int64_t strip_columns, std::int64_t most_units) {
  constexpr std::int64_t kFewestRows = 8;
  const std::int64_t rows = shape.out_height();
  const std::int64_t strips = (shape.out_width() + strip_columns - 1) / strip_columns;
  const std::int64_t columns = shape.batch * strips * groups;
  const std::int64_t wanted = std::clamp<std::int64_t>(most_units / columns, 1, rows);
  const std::int64_t band_rows = std::max((rows + wanted - 1) / wanted, kFewestRows);
  const std::int64_t bands = (rows + band_rows - 1) / band_rows;
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  return {static_cast<const BFloat16*>(operands.x),
          static_cast<const BFloat16*>(operands.w),
          static_cast<const BFloat16*>(operands.bias),
          static_cast<BFloat16*>(const_cast<void*>(operands.y)),
          narrow(shape.height),
          narrow(shape.width),
          narrow(shape.inputs),
          narrow(rows),
          narrow(shape.out_width()),
          narrow(shape.outputs),
          narrow(shape.border),
          narrow(groups),
          narrow(strips),
          narrow(bands),
          narrow(band_rows),
          narrow(columns * bands)};
}

unsigned blocks_of(const ThinWork& work) {
  return static_cast<unsigned>((work.units + kThinWarps - 1) / kThinWarps);
}

}  // namespace

bool can_convolve_thin(const ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  return problem.pass == ConvPass::kForward && problem.type == ConvType::kBFloat16 &&
         !problem.residual && shape.kernel == 3 && shape.stride == 1 && shape.border <= 1 &&
         (goes_to_few(shape) || comes_from_few(shape));
}

void convolve_thin(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
  constexpr int kMultiprocessors = 132;  // about; others do the same work, divided less evenly
  const ConvShape& shape = problem.shape;
  const auto queue = static_cast<cudaStream_t>(stream);
  if (goes_to_few(shape)) {
    const ThinWork work =
        divide(shape, operands, 1, kStripOutputs, kMultiprocessors * kToFewBlocks * kThinWarps);
    const std::int64_t slices = (shape.inputs + kSliceChannels - 1) / kSliceChannels;
    const std::int64_t lanes = 32 * (kTaps * slices + kThinWarps * kSliceStages * kCellGroups);
    const auto bytes = static_cast<int>(lanes) * static_cast<int>(sizeof(uint4));
    cudaFuncSetAttribute(convolve_to_few, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    convolve_to_few<<<blocks_of(work), kThinThreads, static_cast<std::size_t>(bytes), queue>>>(
        work);
  } else {
    // Many more than run at a time, so that no multiprocessor is idle for long at the end.
    const ThinWork work = divide(shape, operands, (shape.outputs + kWarpOutputs - 1) / kWarpOutputs,
                                 kWarpCells, 8 * kMultiprocessors * kFromFewBlocks * kThinWarps);
    convolve_from_few<<<blocks_of(work), kThinThreads, 0, queue>>>(work);
  }
  check_launch("convolve_thin");
}

}  // namespace slift::kernels::cuda
