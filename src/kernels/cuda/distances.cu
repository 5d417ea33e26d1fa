#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kSide = 16;                  // a block has kSide x kSide threads
constexpr int kPerThread = 4;              // rows of a and of b of one thread
constexpr int kTile = kSide * kPerThread;  // rows of a and of b of one block
constexpr int kDepth = 32;                 // terms in shared memory at once
constexpr int kPanel = 256;                // terms added in float32
constexpr int kPitch = kTile + 1;          // an odd pitch: no two threads want the same bank

// Terms first .. first+kDepth-1 of rows row .. row+kTile-1 into tile[term][row]; 0 outside the
// matrix, which adds 0 to every sum. Neighbouring threads read neighbouring terms.
__device__ void load_tile(const float* rows, std::int64_t count, std::int64_t n, std::int64_t row,
                          std::int64_t first, float (*tile)[kPitch]) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kSide * kSide) {
    const int r = e / kDepth, k = e % kDepth;
    const bool inside = row + r < count && first + k < n;
    tile[k][r] = inside ? rows[(row + r) * n + first + k] : 0.0f;
  }
}

// Block (x, y) adds to the kTile x kTile outputs of rows y kTile .. of a and x kTile .. of b; a
// thread owns every kSide-th row of each.
__global__ void __launch_bounds__(kSide* kSide) squared_distances_kernel(DistanceArgs args) {
  __shared__ float a[kDepth][kPitch], b[kDepth][kPitch];
  const std::int64_t row_a = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t row_b = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int mine_b = static_cast<int>(threadIdx.x) % kSide;
  const int mine_a = static_cast<int>(threadIdx.x) / kSide;
  double totals[kPerThread][kPerThread] = {};
  for (std::int64_t panel = 0; panel < args.n; panel += kPanel) {
    float sums[kPerThread][kPerThread] = {};
    for (std::int64_t first = panel; first < panel + kPanel && first < args.n; first += kDepth) {
      load_tile(args.a, args.na, args.n, row_a, first, a);
      load_tile(args.b, args.nb, args.n, row_b, first, b);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        float x[kPerThread], y[kPerThread];
        for (int p = 0; p < kPerThread; ++p) x[p] = a[k][mine_a + p * kSide];
        for (int q = 0; q < kPerThread; ++q) y[q] = b[k][mine_b + q * kSide];
        for (int p = 0; p < kPerThread; ++p) {
          for (int q = 0; q < kPerThread; ++q) {
            const float difference = x[p] - y[q];
            sums[p][q] += difference * difference;
          }
        }
      }
      __syncthreads();  // before the next tile overwrites this one
    }
    for (int p = 0; p < kPerThread; ++p) {
      for (int q = 0; q < kPerThread; ++q) totals[p][q] += static_cast<double>(sums[p][q]);
    }
  }
  for (int p = 0; p < kPerThread; ++p) {
    for (int q = 0; q < kPerThread; ++q) {
      const std::int64_t i = row_a + mine_a + p * kSide, j = row_b + mine_b + q * kSide;
      if (i < args.na && j < args.nb) args.out[i * args.nb + j] += totals[p][q];
    }
  }
}

}  // namespace

void squared_distances(const DistanceArgs& args, void* stream) {
  if (args.na == 0 || args.nb == 0) return;
  // At most 65535 blocks in y, i.e. 4 million rows of a; b may have 2^31 times kTile.
  const dim3 blocks(static_cast<unsigned>((args.nb + kTile - 1) / kTile),
                    static_cast<unsigned>((args.na + kTile - 1) / kTile));
  launch_kernel(squared_distances_kernel, blocks, kSide * kSide, 0, stream, args);
  check_launch("squared_distances");
}

}  // namespace slift::kernels::cuda
