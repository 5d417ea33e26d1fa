#include <torch/autograd.h>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"
#ifdef SLIFT_WITH_CUDNN
#include "kernels/cuda/convolution.h"
#endif

namespace slift::ops {
namespace {

constexpr auto kPacked = at::MemoryFormat::ChannelsLast;

#ifdef SLIFT_WITH_CUDNN

using kernels::cuda::ConvOperands;
using kernels::cuda::ConvPass;
using kernels::cuda::ConvShape;

void run(const kernels::cuda::ConvProblem& problem, const ConvOperands& operands,
         const at::TensorOptions& options) {
  const kernels::cuda::ConvPlan& plan =
      kernels::cuda::tuned_plan(problem, operands, current_stream());
  const Tensor workspace = at::empty({plan.workspace_bytes()}, options.dtype(at::kByte));
  plan.run(operands, data_of<void>(workspace), current_stream());
}

// A convolution of x, or its transpose. Both know the same three passes: what is forward for one is
// the input's gradient for the other.
struct Geometry {
  bool transposed;
  ConvShape shape;  // of the convolution that is or is not transposed

  Geometry(bool is_transposed, const Tensor& x, const Tensor& weight, std::int64_t stride,
           std::int64_t border)
      : transposed(is_transposed) {
    const std::int64_t kernel = weight.size(2);
    const auto extent = [&](std::int64_t n) {
      return transposed ? (n - 1) * stride + kernel - 2 * border : n;
    };
    shape = {
        x.size(0), weight.size(1), extent(x.size(2)), extent(x.size(3)), weight.size(0), kernel,
        stride,    border};
  }

  Tensor empty_result(const at::TensorOptions& options) const {
    return transposed
               ? at::empty({shape.batch, shape.inputs, shape.height, shape.width}, options, kPacked)
               : at::empty({shape.batch, shape.outputs, shape.out_height(), shape.out_width()},
                           options, kPacked);
  }

  // `in` and `out` as this geometry has them: the convolution's x and y, or y and x.
  ConvOperands operands(const Tensor& in, const Tensor& weight, const Tensor& out) const {
    return {(transposed ? out : in).data_ptr(), weight.data_ptr(),
            (transposed ? in : out).data_ptr()};
  }

  void forward(const Tensor& in, const Tensor& weight, const Tensor& bias, const Tensor& residual,
               const Tensor& out) const {
    ConvOperands args = operands(in, weight, out);
    args.bias = data_of<void>(bias);
    args.residual = data_of<void>(residual);
    run({shape, transposed ? ConvPass::kInputGradient : ConvPass::kForward, residual.numel() > 0,
         bias.numel() > 0},
        args, in.options());
  }
  void input_gradient(const Tensor& grad_in, const Tensor& weight, const Tensor& grad_out) const {
    run({shape, transposed ? ConvPass::kForward : ConvPass::kInputGradient},
        operands(grad_in, weight, grad_out), grad_in.options());
  }
  void weight_gradient(const Tensor& in, const Tensor& grad_weight, const Tensor& grad_out) const {
    run({shape, ConvPass::kWeightGradient}, operands(in, grad_weight, grad_out), in.options());
  }
};

// Without bias or residual these have no elements: autograd takes no undefined tensors.
struct Convolve : torch::autograd::Function<Convolve> {
  static Tensor forward(torch::autograd::AutogradContext* context, bool transposed,
                        std::int64_t stride, std::int64_t border, const Tensor& x,
                        const Tensor& weight, const Tensor& copy, const Tensor& bias,
                        const Tensor& residual) {
    const Geometry geometry(transposed, x, copy, stride, border);
    const Tensor out = geometry.empty_result(x.options());
    geometry.forward(x, copy, bias, residual, out);
    context->save_for_backward({x, copy});
    context->saved_data["transposed"] = transposed;
    context->saved_data["stride"] = stride;
    context->saved_data["border"] = border;
    context->saved_data["wanted"] = std::vector<bool>{
        x.requires_grad(), weight.requires_grad(), bias.requires_grad(), residual.requires_grad()};
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &copy = saved[1], grad = grads[0].contiguous(kPacked);
    const c10::List<bool> wanted = context->saved_data["wanted"].toBoolList();
    const Geometry geometry(context->saved_data["transposed"].toBool(), x, copy,
                            context->saved_data["stride"].toInt(),
                            context->saved_data["border"].toInt());
    Tensor grad_x, grad_weight, grad_bias;
    if (wanted[0]) {
      grad_x = at::empty_like(x);
      geometry.input_gradient(grad_x, copy, grad);
    }
    if (wanted[1]) {
      const Tensor rounded = at::empty_like(copy);
      geometry.weight_gradient(x, rounded, grad);
      grad_weight = rounded.to(at::kFloat);
    }
    if (wanted[2]) grad_bias = grad.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat);
    return {Tensor(),    Tensor(), Tensor(),  grad_x,
            grad_weight, Tensor(), grad_bias, wanted[3] ? grad : Tensor()};
  }
};

#endif

}  // namespace

bool has_fused_convolution(const Tensor& x) {
#ifdef SLIFT_WITH_CUDNN
  return x.is_cuda() && x.scalar_type() == at::kBFloat16;
#else
  return static_cast<void>(x), false;
#endif
}

Tensor convolution(const Tensor& x, const ConvolutionArgs& args) {
  expect_shape(x, {kAny, args.transposed ? args.weight.size(0) : args.weight.size(1), kAny, kAny},
               "convolution: x");
#ifdef SLIFT_WITH_CUDNN
  if (has_fused_convolution(x)) {
    const Tensor nothing = at::empty({0}, x.options());
    const Tensor copy = args.copy.defined() ? args.copy : args.weight.detach().to(x.scalar_type());
    TORCH_CHECK(copy.scalar_type() == x.scalar_type() && copy.sizes() == args.weight.sizes(),
                "convolution: the copy of the weight must have its shape and the type of x");
    TORCH_CHECK(copy.size(0) % 8 == 0 && copy.size(1) % 8 == 0,
                "convolution: channels must be multiples of 8");
    return Convolve::apply(args.transposed, args.stride, args.border, x.contiguous(kPacked),
                           args.weight, copy.contiguous(kPacked),
                           args.bias.defined() ? args.bias : nothing,
                           args.residual.defined() ? args.residual.contiguous(kPacked) : nothing);
  }
#endif
  const Tensor in = x.contiguous(kPacked);
  const Tensor weight =
      args.copy.defined() ? stand_in(args.weight, args.copy) : args.weight.to(x.scalar_type());
  const Tensor out = args.transposed
                         ? at::conv_transpose2d(in, weight, args.bias, args.stride, args.border)
                         : at::conv2d(in, weight, args.bias, args.stride, args.border);
  return (args.residual.defined() ? out + args.residual : out).contiguous(kPacked);
}

Tensor convolution_fp8(const Tensor& x, const Fp8ConvolutionArgs& args) {
  expect_shape(x, {kAny, args.weight.size(1), kAny, kAny}, "convolution_fp8: x");
  TORCH_CHECK(!at::GradMode::is_enabled(), "convolution_fp8: there are no gradients");
  TORCH_CHECK(x.scalar_type() == at::kByte && args.weight.scalar_type() == at::kByte,
              "convolution_fp8: x and weight must be e4m3 bits");
  TORCH_CHECK(args.weight.size(0) % 16 == 0 && args.weight.size(1) % 16 == 0,
              "convolution_fp8: channels must be multiples of 16");
  const at::ScalarType type = x.is_cuda() ? at::kBFloat16 : at::kFloat;
  for (const Tensor& t : {args.bias, args.residual}) {
    TORCH_CHECK(!t.defined() || t.scalar_type() == type,
                "convolution_fp8: bias and residual must have the type of the result");
  }
  const Tensor in = x.contiguous(kPacked), weight = args.weight.contiguous(kPacked);
#ifdef SLIFT_WITH_CUDNN
  if (x.is_cuda()) {
    const Geometry geometry(/*is_transposed=*/false, in, weight, /*stride=*/1, args.border);
    const Tensor out = geometry.empty_result(x.options().dtype(type));
    const Tensor residual = args.residual.defined() ? args.residual.contiguous(kPacked) : Tensor();
    ConvOperands operands = geometry.operands(in, weight, out);
    operands.scale = data_of<float>(args.scale);
    if (residual.defined()) operands.residual = data_of<void>(residual);
    if (args.bias.defined()) operands.bias = data_of<void>(args.bias);
    run({geometry.shape, ConvPass::kForward, residual.defined(), args.bias.defined(),
         kernels::cuda::ConvType::kFp8},
        operands, x.options());
    return out;
  }
#endif
  Tensor out = at::conv2d(from_fp8(in, 1), from_fp8(weight, 1), {}, 1, args.border) * args.scale;
  if (args.residual.defined()) out = out + args.residual;
  if (args.bias.defined()) out = out + args.bias.view({1, -1, 1, 1});
  return out.to(type).contiguous(kPacked);
}

namespace {

struct StandIn : torch::autograd::Function<StandIn> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor&, const Tensor& copy) {
    return copy.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0].to(at::kFloat), Tensor()};
  }
};

}  // namespace

Tensor stand_in(const Tensor& parameter, const Tensor& copy) {
  return at::GradMode::is_enabled() ? StandIn::apply(parameter, copy) : copy;
}

}  // namespace slift::ops
