// The most a device gives, measured beside whatever is compared with it: GPUs of one kind differ,
// and so does one GPU from hour to hour.
#pragma once

#include "tensor/torch_compat.h"

namespace slift {

// Both on random numbers: zeros draw less power and run faster than any data do.
struct Ceilings {
  double copy = 0;  // bytes/s, read and written counted both, of a copy much larger than any cache
  double gemm = 0;  // FLOP/s of a large square matrix product
};

// bytes/s.
double copy_ceiling(const at::Device& device);
// FLOP/s of products of matrices of `type`; of float32, with TF32 as allow_tf32() has it.
double gemm_ceiling(const at::Device& device, at::ScalarType type);

Ceilings measure_ceilings(const at::Device& device, at::ScalarType type);

}  // namespace slift
