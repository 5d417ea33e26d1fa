#include <torch/autograd.h>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

// The sum a Wa^T + b Wb^T of matrices, W = [Wa, Wb].
Tensor mix_rows(const Tensor& a, const Tensor& b, const Tensor& weight) {
#ifdef SLIFT_WITH_CUDA
  if (a.is_cuda() && a.scalar_type() == at::kBFloat16 &&
      kernels::cuda::can_mix(a.size(1), b.size(1), weight.size(0))) {
    using kernels::BFloat16;
    const Tensor out = at::empty({a.size(0), weight.size(0)}, a.options());
    const Tensor in_a = a.contiguous(), in_b = b.contiguous(), w = weight.contiguous();
    kernels::cuda::mix({a.size(0), a.size(1), b.size(1), w.size(0), data_of<BFloat16>(in_a),
                        data_of<BFloat16>(in_b), data_of<BFloat16>(w), data_of<BFloat16>(out)},
                       current_stream());
    return out;
  }
#endif
  Tensor out = at::mm(a, weight.narrow(1, 0, a.size(1)).t());
  return out.addmm_(b, weight.narrow(1, a.size(1), b.size(1)).t());
}

struct MixRows : torch::autograd::Function<MixRows> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& a, const Tensor& b,
                        const Tensor& weight) {
    context->save_for_backward({a, b, weight});
    return mix_rows(a, b, weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1], &weight = saved[2], &grad = grads[0];
    Tensor grad_a, grad_b, grad_weight;
    if (context->needs_input_grad(0)) grad_a = gradient_of_mixed(grad, weight, 0, a.size(1));
    if (context->needs_input_grad(1)) {
      grad_b = gradient_of_mixed(grad, weight, a.size(1), b.size(1));
    }
    if (context->needs_input_grad(2)) {
      grad_weight = at::empty(weight.sizes(), weight.options());
      write_gradient_of_mixing(grad, a, b, grad_weight);
    }
    return {grad_a, grad_b, grad_weight};
  }
};

}  // namespace

Tensor mix(const MixArgs& args) {
  const auto& [a, b, weight] = args;
  expect_shape(a, {kAny, kAny, kAny, kAny}, "mix: a");
  if (b.defined()) expect_shape(b, {a.size(0), kAny, a.size(2), a.size(3)}, "mix: b");
  expect_shape(weight, {kAny, a.size(1) + (b.defined() ? b.size(1) : 0), 1, 1}, "mix: weight");
  for (const Tensor& t : {b, weight}) {
    TORCH_CHECK(!t.defined() || (t.scalar_type() == a.scalar_type() && t.device() == a.device()),
                "mix: a, b and weight must have one type and device");
  }
  const Tensor matrix = weight.flatten(1);
  const Tensor out =
      b.defined() ? MixRows::apply(as_rows(a), as_rows(b), matrix) : at::mm(as_rows(a), matrix.t());
  return out.view({a.size(0), a.size(2), a.size(3), weight.size(0)}).permute({0, 3, 1, 2});
}

}  // namespace slift::ops
