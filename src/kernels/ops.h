// The only bridge from Tensor to the kernels' pointers: checks shapes, dtypes and devices, picks
// the device's kernel, spreads the CPU ones over threads.
#pragma once

#include <vector>

#include "kernels/kernels.h"
#include "tensor/torch_compat.h"

namespace slift::ops {

// index [rows] and step [1] or [], int64 on one device -> labels [rows, dim] float32 there. An
// undefined step is 0.
Tensor draw_labels(std::uint64_t seed, Purpose purpose, const Tensor& index, const Tensor& step,
                   std::int64_t dim, kernels::LabelKind kind);

// Elementwise f(x) and f'(x) grad_out for tensors of one shape, without autograd. Our kernel for
// float32 on the CPU, LibTorch's elsewhere. Channels-last x gives a channels-last result.
Tensor activation(kernels::Activation f, const Tensor& x);
Tensor activation_backward(kernels::Activation f, const Tensor& x, const Tensor& grad_out);

// out[i, j] += |a[i] - b[j]|^2 for a [na, n] and b [nb, n], float32, into out [na, nb], float64;
// all contiguous, on one device. Does not depend on the number of threads.
void add_squared_distances(const Tensor& a, const Tensor& b, Tensor& out);

// Group norm, FiLM and activation of a and b side by side, as kernels.h says, with autograd:
// a [B, channels_a, H, W], b [B, channels_b, H, W] or undefined, scale and shift [C], film [B, 2 C]
// or undefined -> [B, C, H, W]. a, b and film share a type, which is the result's; scale and shift
// may be wider. Our kernels for float32 on the CPU, where results do not depend on the number of
// threads, and for float32 and bfloat16 on CUDA: channels-last, the same bits every time.
// LibTorch's functions elsewhere.
Tensor norm_activation(kernels::Activation f, std::int64_t groups, const Tensor& a, const Tensor& b,
                       const Tensor& scale, const Tensor& shift, const Tensor& film);

// Surrounds a periodic field by one cell of its images, with autograd: [B, C, H, W] -> [B, C, H +
// 2, W + 2], channels-last. Our kernels where norm_activation() has them, LibTorch's copies
// elsewhere.
Tensor pad_circular(const Tensor& x);

// Tensors of one optimiser, in step with each other; float32, contiguous, on one device.
struct AdamWState {
  std::vector<Tensor> params, first, second, ema;
};

// L2 norm over all `grads`, in float64. CPU only; does not depend on the number of threads.
double global_norm(const std::vector<Tensor>& grads);

// One fused pass over all parameters (CPU).
void adamw(const kernels::cpu::AdamWStep& step, const std::vector<Tensor>& grads,
           AdamWState& state);

}  // namespace slift::ops
