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

namespace cpu {

void draw_labels(const LabelArgs& args);

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

}  // namespace cuda

}  // namespace slift::kernels
