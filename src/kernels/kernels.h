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
// kSphere scales it to length 1.
struct LabelArgs {
  std::uint64_t seed;
  Purpose purpose;
  const std::int64_t* index;  // [rows]
  std::uint32_t step;
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

namespace cpu {

void draw_labels(const LabelArgs& args);

void squared_distances(const DistanceArgs& args);

// out = f(x), and grad_x = f'(x) grad_out; in place is allowed. Relative error below 1e-6.
void activation(Activation f, std::int64_t n, const float* x, float* out);
void activation_backward(Activation f, std::int64_t n, const float* x, const float* grad_out,
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

// Enqueues on `stream` (a cudaStream_t); `index` and `out` are device pointers.
void draw_labels(const LabelArgs& args, void* stream);

// The same; all pointers are device pointers.
void squared_distances(const DistanceArgs& args, void* stream);

}  // namespace cuda

}  // namespace slift::kernels
