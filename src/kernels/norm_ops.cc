#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "kernels/cpu_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;

float* data_or_null(const Tensor& t) { return t.numel() > 0 ? t.data_ptr<float>() : nullptr; }

// Divides the work by samples, and by groups as well if there are more threads than samples. Which
// it is does not change the results.
template <typename Body>
void for_each_part(const kernels::NormShape& shape, const Body& body) {
  std::int64_t cuts = 1;
  while (cuts < shape.groups &&
         (shape.batch * cuts < at::get_num_threads() || shape.groups % cuts)) {
    ++cuts;
  }
  const std::int64_t groups = shape.groups / cuts;
  at::parallel_for(0, shape.batch * cuts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      body(kernels::NormPart{i / cuts, i % cuts * groups, groups});
    }
  });
}

// Adds up the rows of [rows, n] in their order, whatever the number of threads.
Tensor add_rows(const Tensor& x) {
  Tensor total = at::zeros({x.size(1)}, x.options());
  float* sum = total.data_ptr<float>();
  const float* row = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.size(0); ++i, row += x.size(1)) {
    for (std::int64_t c = 0; c < x.size(1); ++c) sum[c] += row[c];
  }
  return total;
}

// Our kernels in autograd's terms. Keeps the inputs and the statistics for backward. Autograd takes
// no undefined tensors: without a second source `b` has no channels, without FiLM `film` no
// columns.
struct NormActivate : torch::autograd::Function<NormActivate> {
  static kernels::NormInputs inputs(kernels::Activation f, std::int64_t groups, const Tensor& a,
                                    const Tensor& b, const Tensor& scale, const Tensor& shift,
                                    const Tensor& film) {
    const kernels::NormShape shape{a.size(0), a.size(2) * a.size(3), a.size(1), b.size(1), groups};
    return {shape,
            f,
            a.data_ptr<float>(),
            data_or_null(b),
            scale.data_ptr<float>(),
            shift.data_ptr<float>(),
            data_or_null(film)};
  }

  static Tensor forward(torch::autograd::AutogradContext* context, kernels::Activation f,
                        std::int64_t groups, const Tensor& a, const Tensor& b, const Tensor& scale,
                        const Tensor& shift, const Tensor& film) {
    const kernels::NormInputs in = inputs(f, groups, a, b, scale, shift, film);
    Tensor out =
        at::empty({a.size(0), in.shape.channels(), a.size(2), a.size(3)}, a.options(), kLayout);
    const Tensor mean = at::empty({a.size(0), groups}, a.options()), rstd = at::empty_like(mean);
    const kernels::NormOutputs outputs{out.data_ptr<float>(), mean.data_ptr<float>(),
                                       rstd.data_ptr<float>()};
    for_each_part(in.shape, [&](const kernels::NormPart& part) {
      kernels::cpu::norm_activation(in, part, outputs);
    });
    context->save_for_backward({a, b, scale, shift, film, mean, rstd});
    context->saved_data["activation"] = static_cast<std::int64_t>(f);
    context->saved_data["groups"] = groups;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1], &scale = saved[2], &film = saved[4];
    const auto f = static_cast<kernels::Activation>(context->saved_data["activation"].toInt());
    const kernels::NormInputs in = inputs(f, context->saved_data["groups"].toInt(), a, b, scale,
                                          /*shift=*/saved[3], film);
    const Tensor grad_out = grads[0].contiguous(kLayout);
    const Tensor grad_a = at::empty_like(a), grad_b = at::empty_like(b);
    const Tensor grad_film = at::empty_like(film);
    const Tensor grad_scale = at::empty({a.size(0), in.shape.channels()}, a.options());
    const Tensor grad_shift = at::empty_like(grad_scale);
    const kernels::NormGradients gradients{grad_a.data_ptr<float>(), data_or_null(grad_b),
                                           grad_scale.data_ptr<float>(),
                                           grad_shift.data_ptr<float>(), data_or_null(grad_film)};
    for_each_part(in.shape, [&](const kernels::NormPart& part) {
      kernels::cpu::norm_activation_backward(in, part, saved[5].data_ptr<float>(),
                                             saved[6].data_ptr<float>(), grad_out.data_ptr<float>(),
                                             gradients);
    });
    return {Tensor(), Tensor(), grad_a, grad_b, add_rows(grad_scale), add_rows(grad_shift),
            grad_film};
  }
};

// The same by LibTorch's own functions.
Tensor compose(kernels::Activation f, std::int64_t groups, const Tensor& x, const Tensor& scale,
               const Tensor& shift, const Tensor& film) {
  Tensor h = at::group_norm(x, groups, scale, shift, kernels::kNormEpsilon);
  if (film.defined()) {
    const std::vector<Tensor> parts = film.view({x.size(0), -1, 1, 1}).chunk(2, 1);
    h = at::addcmul(parts[1], h, 1 + parts[0]);
  }
  return f == kernels::Activation::kSilu ? at::silu(h) : at::gelu(h, "tanh");
}

}  // namespace

Tensor norm_activation(kernels::Activation f, std::int64_t groups, const Tensor& a, const Tensor& b,
                       const Tensor& scale, const Tensor& shift, const Tensor& film) {
  expect_shape(a, {kAny, kAny, kAny, kAny}, "norm_activation: a");
  const std::int64_t batch = a.size(0);
  if (b.defined()) expect_shape(b, {batch, kAny, a.size(2), a.size(3)}, "norm_activation: b");
  const std::int64_t channels = a.size(1) + (b.defined() ? b.size(1) : 0);
  expect_shape(scale, {channels}, "norm_activation: scale");
  expect_shape(shift, {channels}, "norm_activation: shift");
  if (film.defined()) expect_shape(film, {batch, 2 * channels}, "norm_activation: film");
  TORCH_CHECK(groups > 0 && channels % groups == 0, "norm_activation: groups must divide channels");
  if (!has_cpu_kernel(a)) {
    return compose(f, groups, b.defined() ? at::cat({a, b}, 1) : a, scale, shift, film);
  }
  const auto packed = [](const Tensor& t) {
    TORCH_CHECK(has_cpu_kernel(t), "norm_activation: expected float32 CPU tensors");
    return t.dim() == 4 ? t.contiguous(kLayout) : t.contiguous();
  };
  const Tensor no_channels = a.narrow(1, 0, 0).detach();
  return NormActivate::apply(f, groups, packed(a), packed(b.defined() ? b : no_channels),
                             packed(scale), packed(shift),
                             packed(film.defined() ? film : no_channels.flatten(1)));
}

}  // namespace slift::ops
