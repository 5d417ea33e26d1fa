// Few rows are added up in one launch. Many rows take two: blocks that fill the GPU add up slabs of
// them, then the sums of the slabs are added up as few rows. The order depends on the sizes alone.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kColumnPack = kPackSize<BFloat16>;
constexpr int kSlabThreads = 512;
constexpr int kPacksInFlight = 8;               // of a thread: hides the latency of memory
constexpr std::int64_t kMostSlabs = 256;        // all blocks at once, two a multiprocessor
constexpr int kAddColumns = 32, kAddRows = 16;  // of a block that adds up few rows
constexpr int kAddThreads = kAddColumns * kAddRows;
constexpr int kRowsInFlight = 8;
constexpr int kSumsPerLaunch = 4;

std::int64_t slabs_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t wanted = rows * (columns / kColumnPack) / (kSlabThreads * kPacksInFlight);
  return std::clamp<std::int64_t>(wanted, 1, kMostSlabs);
}

// partials[blockIdx.x, c]: the sum of column c over the rows of a block's slab. These are packs in
// a row, of which a thread takes every stride-th, all of the same columns.
__global__ void __launch_bounds__(kSlabThreads)
    add_slabs(const BFloat16* x, std::int64_t rows, int columns, float* partials) {
  alignas(16) __shared__ float shared[kSlabThreads * kColumnPack];  // [at_once, columns] and a rest
  const int thread = static_cast<int>(threadIdx.x), lanes = columns / kColumnPack;
  const int at_once = kSlabThreads / lanes, stride = at_once * lanes;
  const std::int64_t slab = (rows + gridDim.x - 1) / gridDim.x, first = blockIdx.x * slab;
  const std::int64_t end = first + slab < rows ? first + slab : rows;
  const int packs = first < end ? static_cast<int>(end - first) * lanes : 0;
  x += first * columns;
  float sums[kColumnPack] = {};
  for (int p = thread < stride ? thread : packs; p < packs; p += kPacksInFlight * stride) {
    // Beyond the end the last pack is read and not added: loads under a condition would wait for
    // each other.
    float values[kPacksInFlight][kColumnPack];
#pragma unroll
    for (int j = 0; j < kPacksInFlight; ++j) {
      load(x + min(p + j * stride, packs - 1) * kColumnPack, values[j]);
    }
#pragma unroll
    for (int j = 0; j < kPacksInFlight; ++j) {
      if (p + j * stride < packs) {
        for (int i = 0; i < kColumnPack; ++i) sums[i] += values[j][i];
      }
    }
  }
  cudaTriggerProgrammaticLaunchCompletion();  // from here add_rows may take its place
  store(sums, shared + thread * kColumnPack);
  __syncthreads();
  for (int c = thread; c < columns; c += kSlabThreads) {
    float total = 0;
    for (int r = 0; r < at_once; ++r) total += shared[r * columns + c];
    partials[static_cast<std::int64_t>(blockIdx.x) * columns + c] = total;
  }
}

template <typename Out>
struct RowSums {
  const float* x[kSumsPerLaunch];  // [rows, columns]
  Out* out[kSumsPerLaunch];        // [columns]
};

// Sum number blockIdx.y for kAddColumns columns, in float64. A thread takes every kAddRows-th row.
template <typename Out>
__global__ void __launch_bounds__(kAddThreads)
    add_rows(const __grid_constant__ RowSums<Out> sums, int rows, int columns) {
  __shared__ double shared[kAddRows][kAddColumns];
  const int lane = static_cast<int>(threadIdx.x) % kAddColumns;
  const int row = static_cast<int>(threadIdx.x) / kAddColumns;
  const int c = static_cast<int>(blockIdx.x) * kAddColumns + lane;
  const float* x = sums.x[blockIdx.y];
  begin_after_previous();
  double sum = 0;
  for (int r = c < columns ? row : rows; r < rows; r += kRowsInFlight * kAddRows) {
    float values[kRowsInFlight];
#pragma unroll
    for (int j = 0; j < kRowsInFlight; ++j) {
      const int next = r + j * kAddRows;
      values[j] = next < rows ? x[std::int64_t{next} * columns + c] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kRowsInFlight; ++j) sum += values[j];
  }
  shared[row][lane] = sum;
  __syncthreads();
  if (row > 0 || c >= columns) return;
  for (int r = 1; r < kAddRows; ++r) sum += shared[r][lane];
  from_float(static_cast<float>(sum), sums.out[blockIdx.y][c]);
}

unsigned add_blocks(std::int64_t columns) {
  return static_cast<unsigned>((columns + kAddColumns - 1) / kAddColumns);
}

}  // namespace

void column_sums(std::span<const ColumnSum> sums, std::int64_t rows, std::int64_t columns,
                 void* stream) {
  while (!sums.empty()) {
    const std::size_t count = std::min<std::size_t>(sums.size(), kSumsPerLaunch);
    RowSums<float> launch = {};
    for (std::size_t i = 0; i < count; ++i) {
      launch.x[i] = sums[i].x;
      launch.out[i] = sums[i].out;
    }
    launch_kernel(add_rows<float>, dim3(add_blocks(columns), static_cast<unsigned>(count)),
                  kAddThreads, 0, stream, launch, static_cast<int>(rows),
                  static_cast<int>(columns));
    check_launch("column_sums");
    sums = sums.subspan(count);
  }
}

bool can_sum_columns(std::int64_t columns) {
  return columns % kColumnPack == 0 && columns / kColumnPack <= kSlabThreads;
}

std::int64_t column_sums_workspace(std::int64_t rows, std::int64_t columns) {
  return slabs_of(rows, columns) * columns;
}

void column_sums(const BFloat16* x, std::int64_t rows, std::int64_t columns, BFloat16* out,
                 float* workspace, void* stream) {
  const std::int64_t slabs = slabs_of(rows, columns);
  launch_kernel(add_slabs, static_cast<unsigned>(slabs), kSlabThreads, 0, stream, x, rows,
                static_cast<int>(columns), workspace);
  launch_early(add_rows<BFloat16>, add_blocks(columns), kAddThreads, 0, stream,
               RowSums<BFloat16>{{workspace}, {out}}, static_cast<int>(slabs),
               static_cast<int>(columns));
  check_launch("column_sums");
}

}  // namespace slift::kernels::cuda
