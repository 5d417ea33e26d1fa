#include <torch/autograd.h>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"
#ifdef SLIFT_WITH_CUDNN
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/thin_convolution.h"
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
  if (kernels::cuda::can_convolve_thin(problem)) {
    return kernels::cuda::convolve_thin(problem, operands, current_stream());
  }
  const kernels::cuda::ConvPlan& plan =
      kernels::cuda::tuned_plan(problem, operands, current_stream());
  const Tensor workspace = at::empty({plan.workspace_bytes()}, options.dtype(at::kByte));
  plan.run(operands, data_of<void>(workspace), current_stream());
}

ConvShape shape_of(const Tensor& x, const Tensor& weight, std::int64_t stride,
                   std::int64_t border) {
  return {x.size(0),      x.size(1),      x.size(2), x.size(3),
          weight.size(0), weight.size(2), stride,    border};
}

Tensor empty_result(const ConvShape& shape, const at::TensorOptions& options) {
  return at::empty({shape.batch, shape.outputs, shape.out_height(), shape.out_width()}, options,
                   kPacked);
}

// Over all samples and cells, in float32.
Tensor sum_of_channels(const Tensor& field) {
  const std::int64_t channels = field.size(1), rows = field.numel() / channels;
  if (!kernels::cuda::can_sum_columns(channels)) {
    return field.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat);
  }
  const auto options = field.options().dtype(at::kFloat);
  const Tensor sums = at::empty({channels}, options);
  const Tensor workspace =
      at::empty({kernels::cuda::column_sums_workspace(rows, channels)}, options);
  kernels::cuda::column_sums(data_of<kernels::BFloat16>(field), rows, channels,
                             data_of<float>(sums), data_of<float>(workspace), current_stream());
  return sums;
}

// Without bias or residual these have no elements: autograd takes no undefined tensors.
struct Convolve : torch::autograd::Function<Convolve> {
  static Tensor forward(torch::autograd::AutogradContext* context, std::int64_t stride,
                        std::int64_t border, const Tensor& x, const Tensor& weight,
                        const Tensor& copy, const Tensor& bias, const Tensor& residual) {
    const ConvShape shape = shape_of(x, copy, stride, border);
    const Tensor out = empty_result(shape, x.options());
    run({shape, ConvPass::kForward, residual.numel() > 0, bias.numel() > 0},
        {x.data_ptr(), copy.data_ptr(), out.data_ptr(), data_of<void>(residual),
         data_of<void>(bias)},
        x.options());
    context->save_for_backward({x, copy});
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
    const ConvShape shape = shape_of(x, copy, context->saved_data["stride"].toInt(),
                                     context->saved_data["border"].toInt());
    Tensor grad_x, grad_weight, grad_bias;
    if (wanted[0]) {
      grad_x = at::empty_like(x);
      run({shape, ConvPass::kInputGradient}, {grad_x.data_ptr(), copy.data_ptr(), grad.data_ptr()},
          x.options());
    }
    if (wanted[1]) {
      const Tensor rounded = at::empty_like(copy);
      run({shape, ConvPass::kWeightGradient}, {x.data_ptr(), rounded.data_ptr(), grad.data_ptr()},
          x.options());
      grad_weight = rounded.to(at::kFloat);
    }
    if (wanted[2]) grad_bias = sum_of_channels(grad);
    return {
        Tensor(), Tensor(), grad_x, grad_weight, Tensor(), grad_bias, wanted[3] ? grad : Tensor()};
  }
};

#endif

}  // namespace

bool has_fused_convolution(const at::TensorOptions& fields) {
#ifdef SLIFT_WITH_CUDNN
  return fields.device().is_cuda() && fields.dtype() == at::kBFloat16;
#else
  return static_cast<void>(fields), false;
#endif
}

Tensor convolution(const Tensor& x, const ConvolutionArgs& args) {
  expect_shape(x, {kAny, args.weight.size(1), kAny, kAny}, "convolution: x");
#ifdef SLIFT_WITH_CUDNN
  if (has_fused_convolution(x)) {
    const Tensor nothing = at::empty({0}, x.options());
    const Tensor copy = args.copy.defined() ? args.copy : args.weight.detach().to(x.scalar_type());
    TORCH_CHECK(copy.scalar_type() == x.scalar_type() && copy.sizes() == args.weight.sizes(),
                "convolution: the copy of the weight must have its shape and the type of x");
    TORCH_CHECK(copy.size(0) % 8 == 0 && copy.size(1) % 8 == 0,
                "convolution: channels must be multiples of 8");
    return Convolve::apply(args.stride, args.border, x.contiguous(kPacked), args.weight,
                           copy.contiguous(kPacked), args.bias.defined() ? args.bias : nothing,
                           args.residual.defined() ? args.residual.contiguous(kPacked) : nothing);
  }
#endif
  const Tensor in = x.contiguous(kPacked);
  const Tensor weight =
      args.copy.defined() ? stand_in(args.weight, args.copy) : args.weight.to(x.scalar_type());
  const Tensor out = at::conv2d(in, weight, args.bias, args.stride, args.border);
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
    const ConvShape shape = shape_of(in, weight, /*stride=*/1, args.border);
    const Tensor out = empty_result(shape, x.options().dtype(type));
    const Tensor residual = args.residual.defined() ? args.residual.contiguous(kPacked) : Tensor();
    ConvOperands operands{in.data_ptr(), weight.data_ptr(), out.data_ptr()};
    operands.scale = data_of<float>(args.scale);
    if (residual.defined()) operands.residual = data_of<void>(residual);
    if (args.bias.defined()) operands.bias = data_of<void>(args.bias);
    run({shape, ConvPass::kForward, residual.defined(), args.bias.defined(),
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
