// Two launches: blocks add up slabs of rows, then their sums are added up in order. The order
// depends on the sizes alone.
#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kColumnThreads = 256;
constexpr int kColumnPack = kPackSize<BFloat16>;
constexpr std::int64_t kMostSlabs = 512;
constexpr std::int64_t kRowsOfThread = 16;  // at least, to be worth a block
constexpr int kClosingColumns = 32, kClosingRows = kColumnThreads / kClosingColumns;

std::int64_t slabs_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t at_once = kColumnThreads / (columns / kColumnPack);
  const std::int64_t wanted = rows / (at_once * kRowsOfThread);
  return wanted < 1 ? 1 : wanted > kMostSlabs ? kMostSlabs : wanted;
}

// A thread takes kColumnPack columns of every `at_once`-th row of its block's slab.
__global__ void __launch_bounds__(kColumnThreads)
    add_slabs(const BFloat16* x, std::int64_t rows, std::int64_t columns, float* partials) {
  __shared__ float shared[kColumnThreads][kColumnPack + 1];
  const int lanes = static_cast<int>(columns / kColumnPack), at_once = kColumnThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes,
            row = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t slab = (rows + gridDim.x - 1) / gridDim.x, first = blockIdx.x * slab;
  const std::int64_t end = first + slab < rows ? first + slab : rows;
  float sums[kColumnPack] = {};
  if (row < at_once) {
#pragma unroll 4
    for (std::int64_t r = first + row; r < end; r += at_once) {
      float values[kColumnPack];
      load(x + r * columns + lane * kColumnPack, values);
      for (int i = 0; i < kColumnPack; ++i) sums[i] += values[i];
    }
  }
  for (int i = 0; i < kColumnPack; ++i) shared[threadIdx.x][i] = sums[i];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += kColumnThreads) {
    float total = 0;
    for (int r = 0; r < at_once; ++r) total += shared[r * lanes + c / kColumnPack][c % kColumnPack];
    partials[blockIdx.x * columns + c] = total;
  }
}

__global__ void __launch_bounds__(kColumnThreads)
    close_slabs(const float* partials, std::int64_t slabs, std::int64_t columns, BFloat16* out) {
  __shared__ double shared[kClosingRows][kClosingColumns];
  const int lane = static_cast<int>(threadIdx.x) % kClosingColumns;
  const int row = static_cast<int>(threadIdx.x) / kClosingColumns;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kClosingColumns + lane;
  double sum = 0;
  for (std::int64_t s = row; c < columns && s < slabs; s += kClosingRows) {
    sum += partials[s * columns + c];
  }
  shared[row][lane] = sum;
  __syncthreads();
  if (row > 0 || c >= columns) return;
  for (int r = 1; r < kClosingRows; ++r) sum += shared[r][lane];
  from_float(static_cast<float>(sum), out[c]);
}

}  // namespace

bool can_sum_columns(std::int64_t columns) {
  return columns % kColumnPack == 0 && columns / kColumnPack <= kColumnThreads;
}

std::int64_t column_sums_workspace(std::int64_t rows, std::int64_t columns) {
  return slabs_of(rows, columns) * columns;
}

void column_sums(const BFloat16* x, std::int64_t rows, std::int64_t columns, BFloat16* out,
                 float* workspace, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const std::int64_t slabs = slabs_of(rows, columns);
  add_slabs<<<static_cast<unsigned>(slabs), kColumnThreads, 0, queue>>>(x, rows, columns,
                                                                        workspace);
  const auto blocks = static_cast<unsigned>((columns + kClosingColumns - 1) / kClosingColumns);
  close_slabs<<<blocks, kColumnThreads, 0, queue>>>(workspace, slabs, columns, out);
  check_launch("column_sums");
}

}  // namespace slift::kernels::cuda
