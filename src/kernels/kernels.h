// Compute kernels as plain functions on pointers and sizes; no tensors here (ops.h is the bridge).
//
// cpu/ holds the references, cuda/ their fast forms with the same results: labels bit for bit,
// everything else to the tolerance its parity test states. All arrays are dense and row-major.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace slift::kernels {

enum class LabelKind { kGaussian, kSphere };

// Both are x sigmoid(z(x)): GELU in its tanh form with z = 2 sqrt(2/pi) (x + 0.044715 x^3), SiLU
// with z = x.
enum class Activation { kGelu, kSilu };

// out[r, :] = the `dim`-dimensional label of (stream, index[r], step).
// kSphere scales it to length 1. The step is read from memory when the labels are drawn, so that
// recorded work (tensor/step_graph.h) draws fresh ones every time.
struct LabelArgs {
  std::uint64_t seed;
  Purpose purpose;
  const std::int64_t* index;  // [rows]
  const std::int64_t* step;   // below 2^32; null: 0
  std::int64_t rows, dim;
  LabelKind kind;
  float* out;  // [rows, dim]
};

// out[i, j] += sum over k of (a[i, k] - b[j, k])^2. Differences, not products of
// norms: cancellation would spoil the small distances. Up to 256 terms are added in float32, their
// sums in float64, in an order that depends on n alone: relative error below 2e-5 for any n, and
// a pair has the same bits whatever other rows it is computed with.
struct DistanceArgs {
  const float* a;  // [na, n]
  const float* b;  // [nb, n]
  std::int64_t na, nb, n;
  double* out;  // [na, nb]
};

// Group norm, FiLM and activation as one map. x [batch, cells, C] is a [batch, cells, channels_a]
// and b [batch, cells, channels_b] side by side, C = channels_a + channels_b; channels_b = 0 leaves
// out b. Group g is the channels g C/groups ... (g + 1) C/groups - 1 of x, possibly of both
// sources.
//   n = (x - mean) rstd,  out = f((scale n + shift) (1 + alpha) + beta)
// with mean and rstd = 1/sqrt(variance + kNormEpsilon) over the cells and channels of a group in a
// sample, and (alpha, beta) the halves of `film`; without film they are 0.
inline constexpr double kNormEpsilon = 1e-5;

struct NormShape {
  std::int64_t batch, cells, channels_a, channels_b, groups;
  SLIFT_HD std::int64_t channels() const { return channels_a + channels_b; }
};

// The bits of a number of the format bfloat16, for CUDA alone.
struct BFloat16 {
  std::uint16_t bits;
};

// `T` is the type of the fields, float or BFloat16; all else is float32.
template <typename T>
struct NormInputs {
  NormShape shape;
  Activation f;
  const T* a;
  const T* b;          // null if channels_b = 0
  const float* scale;  // [C]
  const float* shift;  // [C]
  const float* film;   // [batch, 2 C] or null
};

template <typename T>
struct NormOutputs {
  T* out;       // [batch, cells, C]
  float* mean;  // [batch, groups]; with rstd what backward needs besides the inputs
  float* rstd;  // [batch, groups]
};

template <typename T>
struct NormGradients {
  T* a;          // [batch, cells, channels_a]
  T* b;          // [batch, cells, channels_b], null if channels_b = 0
  float* scale;  // [batch, C]: one row per sample, the caller adds them up
  float* shift;  // [batch, C]: as scale
  float* film;   // [batch, 2 C], null without film
};

// Some groups of one sample. Parts do not meet in any output: they may run at the same time, and
// the results do not depend on how the work was divided.
struct NormPart {
  std::int64_t sample, first_group, groups;
};

// Of a field [batch, height, width, channels].
struct FieldShape {
  std::int64_t height, width, channels;
};

namespace cpu {

void draw_labels(const LabelArgs& args);

void squared_distances(const DistanceArgs& args);

// out = f(x), and grad_x = f'(x) grad_out; in place is allowed. Relative error below 1e-6.
void activation(Activation f, std::int64_t n, const float* x, float* out);
void activation_backward(Activation f, std::int64_t n, const float* x, const float* grad_out,
                         float* grad_x);

// Sums over cells are in float64, or in float32 over short blocks.
void norm_activation(const NormInputs<float>& in, const NormPart& part,
                     const NormOutputs<float>& out);
void norm_activation_backward(const NormInputs<float>& in, const NormPart& part, const float* mean,
                              const float* rstd, const float* grad_out,
                              const NormGradients<float>& grad);

// A field surrounded by one cell of its periodic images, [batch, height + 2, width + 2, channels],
// and the way back: the gradient of a cell is the sum over its images. Both write one row of their
// output, `row` counting those of all samples.
void pad_circular(const FieldShape& shape, std::int64_t row, const float* x, float* out);
void pad_circular_backward(const FieldShape& shape, std::int64_t row, const float* grad_out,
                           float* grad_x);

// One AdamW step (Loshchilov & Hutter 2019) with gradient scaling and EMA in a single pass:
//   g *= grad_scale;  p *= 1 - lr wd;  m += (1-b1)(g-m);  v += (1-b2)(g^2-v);
//   p -= lr/c1 m / (sqrt(v/c2) + eps);  ema += (1-decay)(p-ema),
// c1 = 1-b1^t, c2 = 1-b2^t for step t = 1, 2, ...
// The complements 1-b1, 1-b2, 1-decay are given, since float32 cannot form them from betas near 1.
struct AdamWStep {
  float lr, rate1, rate2, eps, weight_decay, correction1, correction2, grad_scale, ema_rate;
};
void adamw(const AdamWStep& step, std::int64_t n, const float* grad, float* param, float* first,
           float* second, float* ema);

// Sum of squares in float64 over blocks of fixed size, so that it does not depend on threads.
double sum_of_squares(const float* x, std::int64_t n);

}  // namespace cpu

namespace cuda {

// Enqueues on `stream` (a cudaStream_t); `index`, `step` and `out` are device pointers.
void draw_labels(const LabelArgs& args, void* stream);

// The same; all pointers are device pointers.
void squared_distances(const DistanceArgs& args, void* stream);

// The same for all groups of all samples. `workspace` is norm_workspace_size() floats, aligned to
// 16 bytes, that hold nothing before or after. A sample's bits do not depend on the rest of the
// batch. Defined for the two types of fields.
std::int64_t norm_workspace_size(const NormShape& shape);
template <typename T>
void norm_activation(const NormInputs<T>& in, const NormOutputs<T>& out, float* workspace,
                     void* stream);
template <typename T>
void norm_activation_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                              const T* grad_out, const NormGradients<T>& grad, float* workspace,
                              void* stream);

// The same for all `rows` of the output, those of all samples; images are added up in float32.
template <typename T>
void pad_circular(const FieldShape& shape, std::int64_t rows, const T* x, T* out, void* stream);
template <typename T>
void pad_circular_backward(const FieldShape& shape, std::int64_t rows, const T* grad_out, T* grad_x,
                           void* stream);

}  // namespace cuda

}  // namespace slift::kernels
