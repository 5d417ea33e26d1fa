// One multiplication on tensor cores.
#pragma once

#include <cuda_runtime.h>

namespace slift::kernels::cuda {

// sums [16, 8] += a [16, 16] b [8, 16]^T in bfloat16, sums in float32. Lane 4 g + q holds words q
// and q + 4, of two numbers each, of rows g (a0, a2) and g + 8 (a1, a3) of a and of row g of b (b0,
// b1), and columns 2 q and 2 q + 1 of rows g (sums[0], sums[1]) and g + 8 (sums[2], sums[3]).
inline __device__ void multiply_add(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace slift::kernels::cuda
