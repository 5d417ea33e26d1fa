// Which tensors our kernels take, and as what; shared by the sources of ops.h.
#pragma once

#include "kernels/kernels.h"
#include "tensor/torch_compat.h"
#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace slift::ops {

inline bool has_cpu_kernel(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

// Of the kernels on fields, which take float32 and bfloat16.
#ifdef SLIFT_WITH_CUDA
inline bool has_cuda_kernel(const Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

inline void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// Calls body(T()) with T the kernels' name for the type of x.
template <typename Body>
void with_field_type(const Tensor& x, const Body& body) {
  x.scalar_type() == at::kFloat ? body(float()) : body(kernels::BFloat16());
}
#else
inline bool has_cuda_kernel(const Tensor&) { return false; }
#endif

// Null for a tensor without elements.
template <typename T>
T* data_of(const Tensor& x) {
  return x.numel() > 0 ? static_cast<T*>(x.data_ptr()) : nullptr;
}

}  // namespace slift::ops
