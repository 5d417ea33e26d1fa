// Convolutions by a kernel of our own for Hopper's tensor cores. cuDNN reads a cell once for every
// cell of the kernel that meets it; this one copies a tile of cells with its surroundings to shared
// memory once and multiplies it from there, shifted. It adds what cuDNN cannot: a 1 x 1 convolution
// of other fields, in the same sums. And it splits small problems between blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/convolution.h"

namespace slift::kernels::cuda {

// How the work is divided. The bits of a result depend on `split` alone.
struct Tiling {
  int rows;     // of a tile; it has 16 columns
  int outputs;  // channels of a tile
  int split;    // blocks that share the sum of a tile
  bool operator==(const Tiling&) const = default;
};

// The tilings for `problem`, none if the kernel does not do it: a forward pass or the gradient of
// x, of bfloat16, stride 1, up to 3 x 3, channels multiples of 64; periodic ones with multiples of
// 16 columns. Whether the GPU can run them is another question.
std::vector<Tiling> tilings(const ConvProblem& problem);

bool gpu_runs_tiles();  // the current one: compute capability 9.0

// Enqueues on `stream` (a cudaStream_t). Sums are float32, in an order that only the channels and
// `split` fix.
void convolve_tiles(const ConvProblem& problem, const Tiling& tiling, const ConvOperands& operands,
                    void* stream);

}  // namespace slift::kernels::cuda
