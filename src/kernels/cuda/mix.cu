#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/instructions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

// Memory should be the limit, so the kernel keeps out of its way: the weight stays in registers as
// the tensor cores take it, rows of a and b come through shared memory while those before are
// multiplied, and results go out as they are. Blocks stay and take every gridDim-th tile.
constexpr int kMixThreads = 128, kMixWarps = kMixThreads / 32;
constexpr int kMixBlocksAtOnce = 2;       // on a multiprocessor: one computes as the other waits
constexpr int kMixTileBytes = 32 * 1024;  // rows of a and b side by side
constexpr int kMixStages = 3;             // tiles in shared memory: one in use, the others coming
constexpr int kMixStrip = 32;             // rows and columns that a warp computes at once
constexpr int kMixPack = kPackSize<BFloat16>;
template <int K>
constexpr int kMixRows = kMixTileBytes / (K * static_cast<int>(sizeof(BFloat16)));  // of a tile

// Rows of w are those of the tensor cores' first matrix, rows of x those of the second.
__device__ void multiply_rows(float (&sums)[4], const unsigned (&w)[4], unsigned x0, unsigned x1) {
  multiply_add(sums, w[0], w[1], w[2], w[3], x0, x1);
}

// K = inputs_a + inputs_b. A tile is [kRows, K] in packs of 16 bytes; in odd rows, neighbouring
// fours of packs change places, so that the two rows that are read together meet in no bank.
//
// Products and outputs may be dealt to the tensor cores in any order, so it is the one that suits
// memory: for every 32 terms a lane loads one pack of a row, whose words go to two products as they
// lie in registers, and it ends with 4 outputs side by side.
template <int K>
__global__ void __launch_bounds__(kMixThreads, kMixBlocksAtOnce) mix_tiles(MixArgs args) {
  constexpr int kRowPacks = K / kMixPack, kRows = kMixRows<K>, kSteps = K / 32;
  constexpr int kTilePacks = kRows * kRowPacks, kRowsAtOnce = kMixThreads / kRowPacks;
  static_assert(kRows % kMixStrip == 0 && kRowsAtOnce % 2 == 0);
  extern __shared__ uint4 shared_memory[];
  const int thread = static_cast<int>(threadIdx.x);

  // A thread brings one pack of every kRowsAtOnce-th row, always of the same source. Rows beyond
  // the last are the last once more.
  const int in_pack = thread % kRowPacks, in_row = thread / kRowPacks;
  const int packs_a = static_cast<int>(args.inputs_a) / kMixPack;
  const bool of_a = in_pack < packs_a;
  const int in_width = static_cast<int>(of_a ? args.inputs_a : args.inputs_b);
  const BFloat16* const in =
      of_a ? args.a + in_pack * kMixPack : args.b + (in_pack - packs_a) * kMixPack;
  const int landing = in_row * kRowPacks + (in_pack ^ (in_row % 2 == 0 ? 0 : 4));
  const auto bring = [&](std::int64_t tile, int stage) {
    const std::int64_t rows_left = args.rows - tile * kRows;
    if (rows_left <= 0) return;
    const int last = static_cast<int>(min(rows_left, std::int64_t{kRows})) - 1;
    const BFloat16* const from = in + tile * kRows * in_width;
    uint4* const to = shared_memory + stage * kTilePacks + landing;
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsAtOnce) {
      __pipeline_memcpy_async(to + row * kRowPacks, from + min(in_row + row, last) * in_width, 16);
    }
  };
  std::int64_t tile = blockIdx.x;
#pragma unroll
  for (int stage = 0; stage < kMixStages - 1; ++stage) {
    bring(tile + stage * std::int64_t{gridDim.x}, stage);
    __pipeline_commit();
  }

  // A warp computes kMixStrip columns of some of the strips, a lane 4 g ... 4 g + 3 of them.
  const int warp = thread / 32, lane = thread % 32, g = lane / 4, q = lane % 4;
  const int column_strips = static_cast<int>(args.outputs) / kMixStrip;
  const int column = warp % column_strips * kMixStrip + 4 * g;
  unsigned weight[kSteps][2][2][4];  // of both products, and of both halves of the 4 columns
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const BFloat16* const row = args.weight + (column + 2 * half + i) * K;
        const uint4 w = __ldg(reinterpret_cast<const uint4*>(row) + 4 * step + q);
        weight[step][0][half][i] = w.x;
        weight[step][0][half][2 + i] = w.y;
        weight[step][1][half][i] = w.z;
        weight[step][1][half][2 + i] = w.w;
      }
    }
  }

  int stage = 0;
  for (; tile * kRows < args.rows; tile += gridDim.x) {
    __pipeline_wait_prior(kMixStages - 2);
    __syncthreads();  // all of the tile is here, and no one reads the one before any more
    bring(tile + (kMixStages - 1) * std::int64_t{gridDim.x},
          stage == 0 ? kMixStages - 1 : stage - 1);
    __pipeline_commit();
    for (int strip = warp / column_strips; strip < kRows / kMixStrip;
         strip += kMixWarps / column_strips) {
      const int first_row = strip * kMixStrip;
      const uint4* const x = shared_memory + stage * kTilePacks + (first_row + g) * kRowPacks + q;
      float sums[4][2][4] = {};  // of 8 rows each, and of both halves of the columns
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const uint4* const at = x + 4 * (step ^ (g % 2));
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const uint4 words = at[8 * part * kRowPacks];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            multiply_rows(sums[part][half], weight[step][0][half], words.x, words.y);
            multiply_rows(sums[part][half], weight[step][1][half], words.z, words.w);
          }
        }
      }
      const std::int64_t row = tile * kRows + first_row + 2 * q;
      BFloat16* const out = args.out + row * args.outputs + column;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float(&of)[2][4] = sums[part];
          const float values[4] = {of[0][i], of[0][2 + i], of[1][i], of[1][2 + i]};
          if (row + 8 * part + i < args.rows) store(values, out + (8 * part + i) * args.outputs);
        }
      }
    }
    stage = stage == kMixStages - 1 ? 0 : stage + 1;
  }
}

template <int K>
void launch_mix(const MixArgs& args, void* stream) {
  constexpr int kBytes = kMixStages * kMixTileBytes;
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(mix_tiles<K>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const std::int64_t tiles = (args.rows + kMixRows<K> - 1) / kMixRows<K>;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(tiles, kMixBlocksAtOnce * processors));
  launch_kernel(mix_tiles<K>, blocks, kMixThreads, kBytes, stream, args);
  check_launch("mix");
}

}  // namespace

bool can_mix(std::int64_t inputs_a, std::int64_t inputs_b, std::int64_t outputs) {
  const std::int64_t inputs = inputs_a + inputs_b;
  return inputs_a % kMixPack == 0 && inputs_b % kMixPack == 0 &&
         (inputs == 64 || inputs == 128 || inputs == 256) &&
         (outputs == 32 || outputs == 64 || outputs == 128);
}

void mix(const MixArgs& args, void* stream) {
  if (args.rows == 0) return;
  if (!can_mix(args.inputs_a, args.inputs_b, args.outputs)) {
    throw std::invalid_argument("mix: no kernel for these numbers of channels");
  }
  const std::int64_t inputs = args.inputs_a + args.inputs_b;
  const auto launch = inputs == 64    ? launch_mix<64>
                      : inputs == 128 ? launch_mix<128>
                                      : launch_mix<256>;
  launch(args, stream);
}

}  // namespace slift::kernels::cuda
