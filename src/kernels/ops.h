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
// The same into `out` [rows, dim], float32 and row-major, there.
void draw_labels(std::uint64_t seed, Purpose purpose, const Tensor& index, const Tensor& step,
                 kernels::LabelKind kind, const Tensor& out);

// Elementwise f(x) and f'(x) grad_out for tensors of one shape, without autograd. Our kernel for
// float32 on the CPU, LibTorch's elsewhere. Channels-last x gives a channels-last result.
Tensor activation(kernels::Activation f, const Tensor& x);
Tensor activation_backward(kernels::Activation f, const Tensor& x, const Tensor& grad_out);

// out[i, j] += |a[i] - b[j]|^2 for a [na, n] and b [nb, n], float32, into out [na, nb], float64;
// all contiguous, on one device. Does not depend on the number of threads.
void add_squared_distances(const Tensor& a, const Tensor& b, Tensor& out);

// Of norm_activation(): what kernels.h says, with C = channels_a + channels_b. a and b share a
// type, which is the result's; film has it or is float32; bias, scale and shift may be wider. Those
// with a default may be left out.
struct NormArgs {
  kernels::Activation f;
  std::int64_t groups;
  Tensor a;             // [B, channels_a, H, W]
  Tensor b = {};        // [B, channels_b, H, W]
  Tensor bias = {};     // [C]
  Tensor scale, shift;  // [C]
  Tensor film = {};     // [B, 2 C]; a float32 part of a wider matrix is not copied
  bool border = false;
  bool framed = false;  // with `border`: see framed fields below
};

// a and b hold the values that went in, b undefined if it was. What uses them after the norm should
// take them from here: backward then adds the gradients that arrive that way while it writes its
// own, instead of autograd in a pass of its own.
struct Normed {
  Tensor out;  // [B, C, H, W], or [B, C, H + 2, W + 2] with border unless framed
  Tensor a, b;
  Tensor again;  // a, for one more use
};

// Group norm, FiLM and activation of a and b side by side, with autograd. Our kernels for float32
// on the CPU, where results do not depend on the number of threads, and for float32 and bfloat16 on
// CUDA: channels-last, the same bits every time; gradients of bias, scale and shift, if these are
// leaves, are computed beside the rest of backward (side_stream.h). LibTorch's functions elsewhere.
Normed norm_activation(const NormArgs& args);

// Surrounds a periodic field by one cell of its images, with autograd: [B, C, H, W] -> [B, C, H +
// 2, W + 2], channels-last. Our kernels where norm_activation() has them, LibTorch's copies
// elsewhere. Or the same as a framed field, see below.
Tensor pad_circular(const Tensor& x, bool framed = false);

// A 1 x 1 convolution of a and b side by side: a [B, Ka, H, W] and b [B, Kb, H, W], of one type
// with weight [N, Ka + Kb, 1, 1]. An undefined b has no channels.
struct MixArgs {
  Tensor a, b, weight;
};

// A framed field [B, C, H, W], channels-last, lies in the memory of a larger one [B, C, H + 2, W +
// 2], whose other cells are its periodic images. norm_activation() and pad_circular() make it if
// they are told to, convolution() takes it without a border. To autograd it is a field without
// images: no gradients of these have to be computed, written and added to their cells.
//
// Whether convolution() takes one like `field`, with `inputs` channels to `outputs` by 3 x 3 cells:
// it does for gradients on GPUs that cuda/tile_convolution.h is for.
bool takes_framed(const Tensor& field, std::int64_t inputs, std::int64_t outputs);

struct ConvolutionArgs {
  Tensor weight;         // [outputs, inputs, k, k] in the type of x, as is its gradient
  Tensor bias = {};      // [outputs] in the type of x, or undefined
  Tensor residual = {};  // added to the result, of its shape and type; or undefined
  MixArgs mixed = {};    // mix(mixed) is added instead, if it is defined
  std::int64_t stride = 1;
  std::int64_t border = 0;  // cells of zeros around x
  bool framed = false;      // x is; then border is 0
  bool grows = false;       // interleave() brings the result's four fields together
};

// Convolution with what can be fused with it, with autograd, channels-last. Where
// has_fused_convolution() holds it is one kernel, channels must be multiples of 8, and the bits are
// the same every time; gradients of leaves are computed beside the rest of backward
// (side_stream.h). Elsewhere it is LibTorch's.
//
// In a recording without gradients the weight must be older than the recording: a step of a rollout
// changes none, and kernels read it before the one ahead of them has ended.
Tensor convolution(const Tensor& x, const ConvolutionArgs& args);
bool has_fused_convolution(const at::TensorOptions& fields);  // of their type and device
inline bool has_fused_convolution(const Tensor& x) { return has_fused_convolution(x.options()); }

// Four fields, of the even and odd rows and columns, as one, with autograd: y [B, 4 C, H + 1, W +
// 1] -> [B, C, 2 H, 2 W], channels-last, as kernels.h says. Our kernels on CUDA for float32 and
// bfloat16, LibTorch's copies elsewhere.
Tensor interleave(const Tensor& y);

// [B, N, H, W], channels-last, without a copy of a beside b, with autograd. Our kernel for two
// fields of bfloat16 on CUDA where can_mix() (kernels.h) allows it, which rounds a result once;
// LibTorch's products, the second added to the first, elsewhere.
Tensor mix(const MixArgs& args);

// Both ends of a network in a step of a rollout (kernels.h), without gradients. One kernel each
// where it says so, elsewhere LibTorch's functions with the same bits.
//
// How a convolution takes its input: in `type`, with at least the channels it has and zeros behind,
// and with `border` surrounded by periodic images.
struct InputLayout {
  at::ScalarType type;
  std::int64_t channels;
  bool border;
};

// (window - mean) / std as one field: window [B, m, C, H, W] float32, mean and std [C, 1, 1] ->
// [B, channels, H, W] or [B, channels, H + 2, W + 2], channels-last, with state i's channel c at
// i C + c. Our kernel on CUDA to bfloat16 and multiples of 8 channels.
Tensor pack_window(const Tensor& window, const Tensor& mean, const Tensor& std,
                   const InputLayout& layout);

// Drops the oldest state of the window [B, m, state...], float32, and appends base + scale net,
// where `base` is the last state if `offset` is undefined: in place. net [B, state...]; offset and
// scale [C, 1...]. Our kernel on CUDA for float32 and bfloat16 `net`, which is read as it lies if
// it is row-major or, for fields, channels-last, also as the first of more channels.
void push_state(const Tensor& window, const Tensor& net, const Tensor& offset, const Tensor& scale);

// Fields and weights in e4m3 (kernels::Fp8), as the fastest convolutions take them: uint8 tensors
// that hold the bits of gain x, rounded to the nearest and cut off at 448. Without gradients.
//
// A gain for numbers up to `largest`, which leaves room for twice as large ones. It is a power of
// two, so that it loses no bits and small changes of `largest` rarely change it.
double fp8_gain(double largest);
Tensor to_fp8(const Tensor& x, double gain);
// The same of a convolution's weight [outputs, inputs, k, k], but that most of a cell's error is
// made up for by the next cell, which is rounded after it: in a smooth field both meet nearly the
// same numbers.
Tensor weight_to_fp8(const Tensor& weight, double gain);
Tensor from_fp8(const Tensor& bits, double gain);  // float32

// norm_activation(args).out in e4m3, channels-last. Our kernel for bfloat16 on CUDA, elsewhere the
// rounded result of norm_activation().
Tensor norm_activation_fp8(const NormArgs& args, double gain);

struct Fp8ConvolutionArgs {
  Tensor weight;                    // [outputs, inputs, k, k] uint8; channels are multiples of 16
  Tensor scale;                     // [1] float32: 1 / (gain of x times gain of the weight)
  Tensor bias = {}, residual = {};  // as in ConvolutionArgs, in the type of the result
  std::int64_t border = 0;
};

// convolution() of x [B, inputs, H, W] uint8, multiplied by `scale` before anything is added. The
// result is bfloat16 on CUDA and float32 on the CPU. By cuDNN, whose sums of products have fewer
// bits than float32; on the CPU and without cuDNN it is LibTorch's of the same numbers.
Tensor convolution_fp8(const Tensor& x, const Fp8ConvolutionArgs& args);

// Tensors of one optimiser, one of each kind per parameter, on one device. All of an index have
// the parameter's shape and strides, which may be any without gaps (row-major, channels-last).
struct AdamWState {
  std::vector<Tensor> params, first, second, ema;  // float32
  std::vector<Tensor> copies;                      // of params, bfloat16; undefined: none
};

// x with the shape and strides of `like`: itself if it has them, else a copy.
Tensor laid_out_like(const Tensor& x, const Tensor& like);

// L2 norm over all `grads`, float32 or bfloat16 without gaps, into `norm`, one float64 on their
// device; summed in float64. Does not depend on the number of threads.
void global_norm(const std::vector<Tensor>& grads, Tensor& norm);

// One AdamW step over all parameters in one pass, `grads` as in global_norm(), laid out like the
// parameters. `step` [sizeof(kernels::AdamWStep)] uint8 is that
// struct, `norm` what global_norm() gave; both on the parameters' device, so that nothing about a
// step comes from the host. Does not wait for the GPU.
void adamw(const Tensor& step, const Tensor& norm, const std::vector<Tensor>& grads,
           AdamWState& state);

}  // namespace slift::ops
