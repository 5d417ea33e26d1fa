// Which tensors our kernels take, and as what; shared by the sources of ops.h.
#pragma once

#include "kernels/kernels.h"
#include "tensor/torch_compat.h"
#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace slift::ops {

inline bool has_cpu_kernel(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

// Null for a tensor without elements.
template <typename T>
T* data_of(const Tensor& x) {
  return x.numel() > 0 ? static_cast<T*>(x.data_ptr()) : nullptr;
}

// Of the kernels on fields, which take float32 and bfloat16.
#ifdef SLIFT_WITH_CUDA
inline bool has_cuda_kernel(const Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

inline void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// Whether the current stream is being recorded.
inline bool is_recording() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

// Calls body(T()) with T the kernels' name for the type of x.
template <typename Body>
void with_field_type(const Tensor& x, const Body& body) {
  x.scalar_type() == at::kFloat ? body(float()) : body(kernels::BFloat16());
}

// The gradient of what ops.h's interleave() takes, given that of its result.
inline Tensor separate(const Tensor& grad_out) {
  const Tensor grad = grad_out.contiguous(at::MemoryFormat::ChannelsLast);
  const kernels::FieldShape shape{grad.size(2) / 2, grad.size(3) / 2, grad.size(1)};
  const Tensor four =
      at::empty({grad.size(0), 4 * shape.channels, shape.height + 1, shape.width + 1},
                grad.options(), at::MemoryFormat::ChannelsLast);
  with_field_type(grad, [&]<typename T>(T) {
    kernels::cuda::interleave_backward<T>(shape, grad.size(0), data_of<T>(grad), data_of<T>(four),
                                          current_stream());
  });
  return four;
}
#else
inline bool has_cuda_kernel(const Tensor&) { return false; }
#endif

// A channels-last field as a matrix, [B, C, H, W] -> [B H W, C].
inline Tensor as_rows(const Tensor& x) { return x.permute({0, 2, 3, 1}).flatten(0, 2); }

// Gradients of a 1 x 1 convolution, y = [a, b] W^T as matrices: of the `count` inputs from `first`
// on, and that of W [outputs, inputs], which is written.
inline Tensor gradient_of_mixed(const Tensor& grad, const Tensor& weight, std::int64_t first,
                                std::int64_t count) {
  return at::mm(grad, weight.narrow(1, first, count));
}
inline void write_gradient_of_mixing(const Tensor& grad, const Tensor& a, const Tensor& b,
                                     const Tensor& to) {
  Tensor to_a = to.narrow(1, 0, a.size(1)), to_b = to.narrow(1, a.size(1), b.size(1));
  at::mm_out(to_a, grad.t(), a);
  if (b.size(1) > 0) at::mm_out(to_b, grad.t(), b);
}

// Of framed fields (ops.h): the inside as autograd sees it, and back.
inline Tensor inside_of(const Tensor& whole) {
  at::AutoDispatchBelowADInplaceOrView no_view;  // to autograd it is a tensor of its own
  return whole.narrow(2, 1, whole.size(2) - 2).narrow(3, 1, whole.size(3) - 2);
}
inline Tensor whole_of(const Tensor& inside) {
  const std::int64_t c = inside.size(1), height = inside.size(2) + 2, width = inside.size(3) + 2;
  const std::vector<std::int64_t> strides = {height * width * c, 1, width * c, c};
  TORCH_CHECK(inside.strides() == strides && inside.storage_offset() == (width + 1) * c,
              "this field has no frame");
  at::AutoDispatchBelowADInplaceOrView no_view;
  return inside.as_strided({inside.size(0), c, height, width}, strides, 0);
}

}  // namespace slift::ops
