#include "kernels/cpu/activation_math.h"
#include "kernels/kernels.h"

namespace slift::kernels::cpu {
namespace {

template <typename F>
void forward(std::int64_t n, const float* x, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = activate<F>(x[i]);
}

template <typename F>
void backward(std::int64_t n, const float* x, const float* grad_out, float* grad_x) {
  for (std::int64_t i = 0; i < n; ++i) grad_x[i] = grad_out[i] * activation_slope<F>(x[i]);
}

}  // namespace

void activation(Activation f, std::int64_t n, const float* x, float* out) {
  f == Activation::kSilu ? forward<Silu>(n, x, out) : forward<Gelu>(n, x, out);
}

void activation_backward(Activation f, std::int64_t n, const float* x, const float* grad_out,
                         float* grad_x) {
  f == Activation::kSilu ? backward<Silu>(n, x, grad_out, grad_x)
                         : backward<Gelu>(n, x, grad_out, grad_x);
}

}  // namespace slift::kernels::cpu
