// The first and the last convolution of a network, with few channels on one side, by kernels of our
// own: their time should be that of reading or writing the many channels once, which is far less
// than cuDNN's plans for them take.
#pragma once

#include "kernels/cuda/convolution.h"

namespace slift::kernels::cuda {

// Whether convolve_thin() does this: a forward pass of bfloat16, 3 x 3, stride 1, border 0 or 1,
// without residual, either of 16 channels to a multiple of 8, or of a multiple of 8 up to 256 to 8.
bool can_convolve_thin(const ConvProblem& problem);

// Enqueues on `stream` (a cudaStream_t). Sums are float32, in an order that depends on the channels
// alone: a cell has the same bits whatever the batch and the size of the field.
void convolve_thin(const ConvProblem& problem, const ConvOperands& operands, void* stream);

}  // namespace slift::kernels::cuda
