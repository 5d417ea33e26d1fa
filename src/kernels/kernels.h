// Compute kernels as plain functions on pointers and sizes; no tensors here (ops.h is the bridge).
//
// cpu/ holds the references, cuda/ their fast forms with the same results: labels bit for bit,
// everything else to the tolerance its parity test states. All arrays are dense and row-major.
#pragma once

#include <cstdint>
#include <span>

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

// Group norm, FiLM and activation as one map. x [batch, height, width, C] is a [batch, height,
// width, channels_a] and b [batch, height, width, channels_b] side by side, C = channels_a +
// channels_b, plus bias; channels_b = 0 leaves out b. Group g is the channels g C/groups ...
// (g + 1) C/groups - 1 of x, possibly of both sources.
//   n = (x - mean) rstd,  out = f((scale n + shift) (1 + alpha) + beta)
// with mean and rstd = 1/sqrt(variance + kNormEpsilon) over the cells and channels of a group in a
// sample, and (alpha, beta) the halves of `film`; without film they are 0. With `border` the output
// is surrounded by one cell of its periodic images, as pad_circular() does (border.h).
inline constexpr double kNormEpsilon = 1e-5;

struct NormShape {
  std::int64_t batch, height, width, channels_a, channels_b, groups;
  bool border = false;

  SLIFT_HD std::int64_t cells() const { return height * width; }
  SLIFT_HD std::int64_t channels() const { return channels_a + channels_b; }
  SLIFT_HD std::int64_t out_height() const { return height + (border ? 2 : 0); }
  SLIFT_HD std::int64_t out_width() const { return width + (border ? 2 : 0); }
  SLIFT_HD std::int64_t out_cells() const { return out_height() * out_width(); }
};

// The bits of a number of the format bfloat16, for CUDA alone.
struct BFloat16 {
  std::uint16_t bits;
};

// The same of e4m3: 4 bits of exponent, 3 of mantissa, up to 448.
struct Fp8 {
  std::uint8_t bits;
};

// `T` is the type of the fields, float or BFloat16; all else is float32.
template <typename T>
struct NormInputs {
  NormShape shape;
  Activation f;
  const T* a;
  const T* b;                // null if channels_b = 0
  const float* bias;         // [C] or null
  const float* scale;        // [C]
  const float* shift;        // [C]
  const float* film;         // [batch, 2 C] or null
  std::int64_t film_stride;  // elements from one sample's row to the next; 0 without film

  // (alpha, beta) of a sample, if there is a film.
  SLIFT_HD const float* film_of(std::int64_t sample) const { return film + sample * film_stride; }
};

template <typename Out>
struct NormOutputs {
  Out* out;        // [batch, out_height, out_width, C]
  float* mean;     // [batch, groups]; with rstd what backward needs besides the inputs
  float* rstd;     // [batch, groups]
  float gain = 1;  // of Fp8 alone, which holds gain times the output, at most 448
};

// Gradients that come to backward: of `out`, and those that a and b have from elsewhere, to which
// those through the norm are added.
template <typename T>
struct NormArrivals {
  const T* out;              // [batch, out_height, out_width, C]; a cell's images add up
  const T* a;                // [batch, height, width, channels_a] or null
  const T* b;                // [batch, height, width, channels_b] or null
  const T* again = nullptr;  // one more of a, or null
};

template <typename T>
struct NormGradients {
  T* a;          // [batch, height, width, channels_a]
  T* b;          // [batch, height, width, channels_b], null if channels_b = 0
  float* bias;   // [batch, C]: one row per sample, the caller adds them up; null without bias
  float* scale;  // [batch, C]: as bias
  float* shift;  // [batch, C]: as bias
  float* film;   // [batch, 2 C], null without film
};

// Some groups of one sample. Parts do not meet in any output: they may run at the same time, and
// the results do not depend on how the work was divided.
struct NormPart {
  std::int64_t sample, first_group, groups;
};

// The numbers of one AdamW step (Loshchilov & Hutter 2019) with clipping and EMA:
//   g *= min(1, clip/norm);  p *= 1 - lr wd;  m += (1-b1)(g-m);  v += (1-b2)(g^2-v);
//   p -= lr/c1 m / (sqrt(v/c2) + eps);  ema += (1-decay)(p-ema),
// c1 = 1-b1^t, c2 = 1-b2^t for step t = 1, 2, ..., norm that of the gradient; clip = 0 leaves out
// clipping. The complements 1-b1, 1-b2, 1-decay are given, since float32 cannot form them from
// betas near 1.
struct AdamWStep {
  float lr, rate1, rate2, eps, weight_decay, correction1, correction2, ema_rate;
  double clip;
};

// The gradient of one parameter, in the type it was computed in.
struct Gradient {
  const void* values;  // float, or BFloat16 if `rounded`
  std::int64_t size;
  bool rounded;
};

// One parameter of a step and what belongs to it: grad.size elements each, in one order.
struct AdamWTensor {
  Gradient grad;
  float *param, *first, *second, *ema;
  BFloat16* copy;  // of the parameter, rounded; or null
};

// Of a field [batch, height, width, channels].
struct FieldShape {
  std::int64_t height, width, channels;
};

// Of a window [batch, length, channels, height, width] of states, oldest first; vectors have one
// cell.
struct WindowShape {
  std::int64_t batch, length, channels, height, width;

  SLIFT_HD std::int64_t planes() const { return length * channels; }
  SLIFT_HD std::int64_t cells() const { return height * width; }
  SLIFT_HD std::int64_t state_size() const { return channels * cells(); }
};

// A window as the input of a convolution: out[b, y, x, k] = (window[b, k / C, k % C, y, x] -
// mean[k % C]) / std[k % C] with C channels a state, rounded once; zeros from k = planes() on. With
// `border` the output is surrounded by one cell of its periodic images, as pad_circular() does.
struct PackWindowArgs {
  WindowShape shape;
  const float* window;  // [batch, length, C, height, width]
  const float* mean;    // [C]
  const float* std;     // [C]
  bool border;
  std::int64_t packed;  // channels of the output, a multiple of 8
  BFloat16* out;        // [batch, height (+ 2), width (+ 2), packed], aligned to 16 bytes
};

// A window moved on by one state, in place: window[:, i] = window[:, i + 1], and the last one is
// base + scale[c] net with `base` the last state before, or offset[c] if that is given. `net` is
// the network's output, any layout whose cells lie evenly: that of sample b, channel c and cell n
// is at b sample_stride + c channel_stride + n cell_stride.
template <typename T>
struct PushStateArgs {
  WindowShape shape;
  const T* net;
  std::int64_t sample_stride, channel_stride, cell_stride;
  const float* offset;  // [C] or null
  const float* scale;   // [C]
  float* window;        // [batch, length, C, height, width]
};

// out[c] = sum over r of x[r, c].
struct ColumnSum {
  const float* x;  // [rows, columns]
  float* out;      // [columns]
};

// out = a Wa^T + b Wb^T with W = [Wa, Wb], one linear map of two fields side by side; sums in
// float32, rounded once. All pointers are aligned to 16 bytes.
struct MixArgs {
  std::int64_t rows, inputs_a, inputs_b, outputs;
  const BFloat16* a;       // [rows, inputs_a]
  const BFloat16* b;       // [rows, inputs_b]
  const BFloat16* weight;  // [outputs, inputs_a + inputs_b]
  BFloat16* out;           // [rows, outputs]
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
                              const float* rstd, const NormArrivals<float>& arrivals,
                              const NormGradients<float>& grad);

// A field surrounded by one cell of its periodic images, [batch, height + 2, width + 2, channels],
// and the way back: the gradient of a cell is the sum over its images. Both write one row of their
// output, `row` counting those of all samples.
void pad_circular(const FieldShape& shape, std::int64_t row, const float* x, float* out);
void pad_circular_backward(const FieldShape& shape, std::int64_t row, const float* grad_out,
                           float* grad_x);

// One fused pass of an AdamWStep over `n` elements; `norm` is that of the whole gradient.
void adamw(const AdamWStep& step, double norm, std::int64_t n, const float* grad, float* param,
           float* first, float* second, float* ema);

// Sum of squares in float64 over blocks of fixed size, so that it does not depend on threads.
double sum_of_squares(const float* x, std::int64_t n);

}  // namespace cpu

namespace cuda {

// Enqueues on `stream` (a cudaStream_t); `index`, `step` and `out` are device pointers.
void draw_labels(const LabelArgs& args, void* stream);

// The same; all pointers are device pointers.
void squared_distances(const DistanceArgs& args, void* stream);

// Two reads of the fields and three or four launches, or one of each where a few groups of a sample
// fit into the shared memory of a cluster of blocks (cuda/norm_cluster.h), which kAuto takes. They
// differ by roundings.
enum class NormForm { kAuto, kPasses };

// The same for all groups of all samples. `workspace` is norm_workspace_size() floats, aligned to
// 16 bytes, that hold nothing before or after. A sample's bits do not depend on the other
// samples, but they may on their number. Defined for the two types of fields, and from BFloat16 to
// Fp8.
std::int64_t norm_workspace_size(const NormShape& shape);
template <typename T, typename Out>
void norm_activation(const NormInputs<T>& in, const NormOutputs<Out>& out, float* workspace,
                     void* stream, NormForm form = NormForm::kAuto);
template <typename T>
void norm_activation_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                              const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                              float* workspace, void* stream, NormForm form = NormForm::kAuto);

// The same for all `rows` of the output, those of all samples; images are added up in float32.
template <typename T>
void pad_circular(const FieldShape& shape, std::int64_t rows, const T* x, T* out, void* stream);
template <typename T>
void pad_circular_backward(const FieldShape& shape, std::int64_t rows, const T* grad_out, T* grad_x,
                           void* stream);

// L2 norm over all `grads` into `norm`, in float64, in an order that depends on their sizes alone.
// `partials` is norm_partials() numbers that hold nothing before or after.
std::int64_t norm_partials(std::span<const Gradient> grads);
void global_norm(std::span<const Gradient> grads, double* partials, double* norm, void* stream);

// One AdamW step for all `tensors`. `step` and `norm` are device pointers, too, so that a recorded
// launch reads the numbers of the step it is replayed for; `tensors` itself is read at once.
void adamw(const AdamWStep* step, const double* norm, std::span<const AdamWTensor> tensors,
           void* stream);

// Four fields, of the even and odd rows and columns, as one: out [batch, 2 height, 2 width,
// channels] with out[2 a + i, 2 b + j, c] = y[a + i, b + j, (2 i + j) channels + c] of y [batch,
// height + 1, width + 1, 4 channels], whose edges are partly left out; and the way back.
template <typename T>
void interleave(const FieldShape& shape, std::int64_t batch, const T* y, T* out, void* stream);
template <typename T>
void interleave_backward(const FieldShape& shape, std::int64_t batch, const T* grad_out, T* grad_y,
                         void* stream);

// Both ends of a network in a step of a rollout, one pass each. Every operation is rounded on its
// own: the bits are those of the same operations done one by one.
void pack_window(const PackWindowArgs& args, void* stream);
template <typename T>
void push_state(const PushStateArgs<T>& args, void* stream);

// Sums of columns, out[c] = sum over r of x[r, c], the same bits every time. The first form is for
// few rows, all `sums` of one size in a launch, in float64. The second is for many: it reads x,
// aligned to 16 bytes, at the speed of memory, and adds in float32 over short blocks, else in
// float64. `workspace` is column_sums_workspace() floats that hold nothing before or after; columns
// are as can_sum_columns() allows: multiples of 8 up to 4096. Both round once at the end.
void column_sums(std::span<const ColumnSum> sums, std::int64_t rows, std::int64_t columns,
                 void* stream);
bool can_sum_columns(std::int64_t columns);
std::int64_t column_sums_workspace(std::int64_t rows, std::int64_t columns);
void column_sums(const BFloat16* x, std::int64_t rows, std::int64_t columns, BFloat16* out,
                 float* workspace, void* stream);

// One read of a and b and one write of out, the same bits every time, for few channels, where
// memory is the limit: can_mix() allows multiples of 8 that are 64, 128 or 256 together, and 32, 64
// or 128 outputs. Throws std::invalid_argument for others.
bool can_mix(std::int64_t inputs_a, std::int64_t inputs_b, std::int64_t outputs);
void mix(const MixArgs& args, void* stream);

}  // namespace cuda

}  // namespace slift::kernels
