#include <torch/autograd.h>

#include <functional>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"
#ifdef SLIFT_WITH_CUDNN
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/thin_convolution.h"
#include "kernels/cuda/tile_convolution.h"
#include "kernels/side_stream.h"
#endif

namespace slift::ops {
namespace {

constexpr auto kPacked = at::MemoryFormat::ChannelsLast;

#ifdef SLIFT_WITH_CUDNN

using kernels::cuda::ConvOperands;
using kernels::cuda::ConvPass;
using kernels::cuda::ConvProblem;
using kernels::cuda::ConvShape;

// A kernel that only has to be enqueued, on the current stream: all that can wait or allocate has
// been done. It holds its workspace, but not its result, which autograd could not take over then.
using ReadyKernel = std::function<void()>;

ReadyKernel prepare(const ConvProblem& problem, const ConvOperands& operands,
                    const at::TensorOptions& options) {
  if (kernels::cuda::can_convolve_thin(problem)) {
    return [=] { kernels::cuda::convolve_thin(problem, operands, current_stream()); };
  }
  const kernels::cuda::ConvPlan* plan =
      &kernels::cuda::tuned_plan(problem, operands, current_stream());
  const Tensor workspace = at::empty({plan->workspace_bytes()}, options.dtype(at::kByte));
  return [=] { plan->run(operands, data_of<void>(workspace), current_stream()); };
}

ConvShape shape_of(const Tensor& x, const Tensor& weight, std::int64_t stride,
                   std::int64_t border) {
  return {x.size(0),      x.size(1),      x.size(2), x.size(3),
          weight.size(0), weight.size(2), stride,    border};
}

// The gradient of a framed field: that of its images is part of it.
ConvProblem framed_gradient(const ConvShape& shape) {
  ConvProblem problem{shape, ConvPass::kInputGradient};
  problem.periodic = true;
  return problem;
}

Tensor empty_result(const ConvProblem& problem, const at::TensorOptions& options) {
  const ConvShape& shape = problem.shape;
  const std::int64_t height = shape.out_height(), width = shape.out_width();
  return problem.grows
             ? at::empty({shape.batch, shape.outputs / 4, 2 * (height - 1), 2 * (width - 1)},
                         options, kPacked)
             : at::empty({shape.batch, shape.outputs, height, width}, options, kPacked);
}

// sums[c] over all samples and cells of channel c, in float32, rounded at the end.
ReadyKernel prepare_sums(const Tensor& field, const Tensor& sums) {
  const std::int64_t channels = field.size(1), rows = field.numel() / channels;
  const Tensor workspace = at::empty({kernels::cuda::column_sums_workspace(rows, channels)},
                                     field.options().dtype(at::kFloat));
  return [=, from = data_of<kernels::BFloat16>(field), to = data_of<kernels::BFloat16>(sums)] {
    kernels::cuda::column_sums(from, rows, channels, to, data_of<float>(workspace),
                               current_stream());
  };
}

ReadyKernel prepare_mixed_weight(const Tensor& grad, const Tensor& a, const Tensor& b,
                                 const Tensor& grad_weight) {
  return [rows = as_rows(grad), of_a = as_rows(a), of_b = as_rows(b), to = grad_weight.data_ptr()] {
    const std::int64_t inputs = of_a.size(1) + of_b.size(1);
    write_gradient_of_mixing(rows, of_a, of_b,
                             at::from_blob(to, {rows.size(1), inputs}, rows.options()));
  };
}

// What is left out has no elements: autograd takes no undefined tensors.
struct Convolve : torch::autograd::Function<Convolve> {
  static Tensor forward(torch::autograd::AutogradContext* context, std::int64_t stride,
                        std::int64_t border, bool framed, bool grows, bool settled,
                        const Tensor& field, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, const Tensor& a, const Tensor& b,
                        const Tensor& mixed_weight) {
    const Tensor x = framed ? whole_of(field) : field;
    ConvProblem problem{shape_of(x, weight, stride, border), ConvPass::kForward,
                        residual.numel() > 0, bias.numel() > 0};
    problem.mixed_a = a.size(1);
    problem.mixed_b = b.size(1);
    problem.grows = grows;
    const Tensor out = empty_result(problem, x.options());
    ConvOperands operands{x.data_ptr(), weight.data_ptr(), out.data_ptr(), data_of<void>(residual),
                          data_of<void>(bias)};
    operands.mixed_a = data_of<void>(a);
    operands.mixed_b = data_of<void>(b);
    operands.mixed_w = data_of<void>(mixed_weight);
    operands.settled_weights = settled;
    prepare(problem, operands, x.options())();
    context->save_for_backward({field, weight, bias, a, b, mixed_weight});
    context->saved_data["stride"] = stride;
    context->saved_data["framed"] = framed;
    context->saved_data["grows"] = grows;
    context->saved_data["border"] = border;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const bool framed = context->saved_data["framed"].toBool();
    const Tensor &field = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor &a = saved[3], &b = saved[4], &mixed_weight = saved[5];
    const Tensor x = framed ? whole_of(field) : field;
    const Tensor grad =
        context->saved_data["grows"].toBool() ? separate(grads[0]) : grads[0].contiguous(kPacked);
    const ConvShape shape = shape_of(x, weight, context->saved_data["stride"].toInt(),
                                     context->saved_data["border"].toInt());
    // Gradients of leaves are computed beside that of x, which the rest of backward waits for.
    std::vector<ReadyKernel> here, beside;
    const auto add = [&](const Tensor& input, ReadyKernel kernel) {
      (becomes_the_gradient(input) ? beside : here).push_back(std::move(kernel));
    };
    Tensor grad_x, grad_weight, grad_bias, grad_a, grad_b, grad_mixed;
    if (context->needs_input_grad(0)) {
      grad_x = at::empty(field.sizes(), field.options(), kPacked);
      here.push_back(prepare(framed ? framed_gradient(shape_of(field, weight, 1, 1))
                                    : ConvProblem{shape, ConvPass::kInputGradient},
                             {grad_x.data_ptr(), weight.data_ptr(), grad.data_ptr()}, x.options()));
    }
    if (context->needs_input_grad(1)) {
      grad_weight = at::empty_like(weight);
      add(weight, prepare({shape, ConvPass::kWeightGradient},
                          {x.data_ptr(), grad_weight.data_ptr(), grad.data_ptr()}, x.options()));
    }
    if (context->needs_input_grad(2)) {
      if (kernels::cuda::can_sum_columns(shape.outputs)) {
        grad_bias = at::empty_like(bias);
        add(bias, prepare_sums(grad, grad_bias));
      } else {
        grad_bias = grad.sum({0, 2, 3});
      }
    }
    if (context->needs_input_grad(6)) {
      grad_mixed = at::empty_like(mixed_weight);
      add(mixed_weight, prepare_mixed_weight(grad, a, b, grad_mixed));
    }
    if (!beside.empty()) {
      run_beside_backward(x.device(), [x, grad, beside] {
        for (const ReadyKernel& kernel : beside) kernel();
      });
    }
    for (const ReadyKernel& kernel : here) kernel();
    const auto back_to = [&](const Tensor& source, std::int64_t first) {
      const Tensor rows =
          gradient_of_mixed(as_rows(grad), mixed_weight.flatten(1), first, source.size(1));
      return rows.view({grad.size(0), grad.size(2), grad.size(3), -1}).permute({0, 3, 1, 2});
    };
    if (context->needs_input_grad(4)) grad_a = back_to(a, 0);
    if (context->needs_input_grad(5)) grad_b = back_to(b, a.size(1));
    const Tensor none, grad_residual = context->needs_input_grad(3) ? grad : none;
    return {none,        none,      none,          none,   none,   grad_x,
            grad_weight, grad_bias, grad_residual, grad_a, grad_b, grad_mixed};
  }
};

bool runs_in_tiles(const ConvProblem& problem) {
  return kernels::cuda::gpu_runs_tiles() && !kernels::cuda::tilings(problem).empty();
}

// Whether one kernel brings the four fields together.
bool grows_at_once(const Tensor& x, const ConvolutionArgs& args) {
  ConvProblem problem{shape_of(x, args.weight, args.stride, args.border)};
  problem.grows = true;
  return runs_in_tiles(problem);
}

// Whether one kernel adds what args.mixed gives.
bool mixes(const Tensor& x, const ConvolutionArgs& args) {
  const std::int64_t border = args.framed ? 1 : args.border;  // that gives the same size
  ConvProblem problem{shape_of(x, args.weight, args.stride, border)};
  problem.mixed_a = args.mixed.a.size(1);
  problem.mixed_b = args.mixed.b.defined() ? args.mixed.b.size(1) : 0;
  return runs_in_tiles(problem);
}

#endif

}  // namespace

bool has_fused_convolution(const at::TensorOptions& fields) {
#ifdef SLIFT_WITH_CUDNN
  return fields.device().is_cuda() && fields.dtype() == at::kBFloat16;
#else
  return static_cast<void>(fields), false;
#endif
}

bool takes_framed(const Tensor& field, std::int64_t inputs, std::int64_t outputs) {
#ifdef SLIFT_WITH_CUDNN
  return has_fused_convolution(field) && at::GradMode::is_enabled() &&
         runs_in_tiles(framed_gradient(
             {field.size(0), inputs, field.size(2), field.size(3), outputs, 3, 1, 1}));
#else
  return static_cast<void>(field), static_cast<void>(inputs), static_cast<void>(outputs), false;
#endif
}

Tensor convolution(const Tensor& x, const ConvolutionArgs& args) {
  expect_shape(x, {kAny, args.weight.size(1), kAny, kAny}, "convolution: x");
  TORCH_CHECK(args.weight.scalar_type() == x.scalar_type(),
              "convolution: the weight must have the type of x");
  TORCH_CHECK(!args.framed || (args.border == 0 && args.stride == 1 &&
                               takes_framed(x, x.size(1), args.weight.size(0))),
              "convolution: takes no such framed field");
#ifdef SLIFT_WITH_CUDNN
  const bool at_once = args.grows && has_fused_convolution(x) && grows_at_once(x, args);
#else
  const bool at_once = false;
#endif
  if (args.grows && !at_once) {
    ConvolutionArgs four = args;
    four.grows = false;
    return interleave(convolution(x, four));
  }
  const MixArgs& mixed = args.mixed;
  TORCH_CHECK(!mixed.weight.defined() || !args.residual.defined(),
              "convolution: there is one residual or the other");
#ifdef SLIFT_WITH_CUDNN
  if (has_fused_convolution(x) && (!mixed.weight.defined() || mixes(x, args))) {
    TORCH_CHECK(args.weight.size(0) % 8 == 0 && args.weight.size(1) % 8 == 0,
                "convolution: channels must be multiples of 8");
    const Tensor nothing = at::empty({0, 0, 0, 0}, x.options());
    const auto packed = [&](const Tensor& t) {
      return t.defined() ? t.contiguous(kPacked) : nothing;
    };
    const bool settled = is_recording() && !at::GradMode::is_enabled();  // as ops.h demands
    return Convolve::apply(args.stride, args.border, args.framed, args.grows, settled,
                           args.framed ? x : packed(x), packed(args.weight),
                           args.bias.defined() ? args.bias : nothing, packed(args.residual),
                           packed(mixed.a), packed(mixed.b), packed(mixed.weight));
  }
#endif
  if (mixed.weight.defined()) {
    ConvolutionArgs rest = args;
    rest.residual = mix(mixed);
    rest.mixed = {};
    return convolution(x, rest);
  }
  const Tensor in = x.contiguous(kPacked);
  const Tensor out = at::conv2d(in, args.weight, args.bias, args.stride, args.border);
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
    const Tensor residual = args.residual.defined() ? args.residual.contiguous(kPacked) : Tensor();
    const ConvProblem problem{shape_of(in, weight, /*stride=*/1, args.border), ConvPass::kForward,
                              residual.defined(), args.bias.defined(),
                              kernels::cuda::ConvType::kFp8};
    const Tensor out = empty_result(problem, x.options().dtype(type));
    ConvOperands operands{in.data_ptr(), weight.data_ptr(), out.data_ptr()};
    operands.scale = data_of<float>(args.scale);
    if (residual.defined()) operands.residual = data_of<void>(residual);
    if (args.bias.defined()) operands.bias = data_of<void>(args.bias);
    prepare(problem, operands, x.options())();
    return out;
  }
#endif
  Tensor out = at::conv2d(from_fp8(in, 1), from_fp8(weight, 1), {}, 1, args.border) * args.scale;
  if (args.residual.defined()) out = out + args.residual;
  if (args.bias.defined()) out = out + args.bias.view({1, -1, 1, 1});
  return out.to(type).contiguous(kPacked);
}

}  // namespace slift::ops
