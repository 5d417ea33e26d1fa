#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

constexpr auto kLayout = at::MemoryFormat::ChannelsLast;

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
  if (x.is_cuda()) return x.sum(0);
  Tensor total = at::zeros({x.size(1)}, x.options());
  float* sum = total.data_ptr<float>();
  const float* row = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.size(0); ++i, row += x.size(1)) {
    for (std::int64_t c = 0; c < x.size(1); ++c) sum[c] += row[c];
  }
  return total;
}

// What the kernels read, in ops.h's shapes, dense; the fields channels-last, all else float32.
// Autograd takes no undefined tensors: without a second source `b` has no channels, without FiLM
// `film` no columns.
struct Operands {
  kernels::Activation f;
  std::int64_t groups;
  Tensor a, b, scale, shift, film;

  kernels::NormShape shape() const {
    return {a.size(0), a.size(2) * a.size(3), a.size(1), b.size(1), groups};
  }
  template <typename T>
  kernels::NormInputs<T> inputs() const {
    return {shape(),
            f,
            data_of<T>(a),
            data_of<T>(b),
            data_of<float>(scale),
            data_of<float>(shift),
            data_of<float>(film)};
  }
};

struct Results {
  Tensor out, mean, rstd;

  template <typename T>
  kernels::NormOutputs<T> outputs() const {
    return {data_of<T>(out), data_of<float>(mean), data_of<float>(rstd)};
  }
};

struct Slopes {
  Tensor a, b, scale, shift, film;

  template <typename T>
  kernels::NormGradients<T> gradients() const {
    return {data_of<T>(a), data_of<T>(b), data_of<float>(scale), data_of<float>(shift),
            data_of<float>(film)};
  }
};

void run_forward(const Operands& x, const Results& y) {
#ifdef SLIFT_WITH_CUDA
  if (x.a.is_cuda()) {
    const Tensor workspace =
        at::empty({kernels::cuda::norm_workspace_size(x.shape())}, x.scale.options());
    with_field_type(x.a, [&]<typename T>(T) {
      kernels::cuda::norm_activation(x.inputs<T>(), y.outputs<T>(), data_of<float>(workspace),
                                     current_stream());
    });
    return;
  }
#endif
  for_each_part(x.shape(),
                [in = x.inputs<float>(), out = y.outputs<float>()](const kernels::NormPart& part) {
                  kernels::cpu::norm_activation(in, part, out);
                });
}

void run_backward(const Operands& x, const Results& y, const Tensor& grad_out,
                  const Slopes& slopes) {
  const auto* mean = data_of<float>(y.mean);
  const auto* rstd = data_of<float>(y.rstd);
#ifdef SLIFT_WITH_CUDA
  if (x.a.is_cuda()) {
    const Tensor workspace =
        at::empty({kernels::cuda::norm_workspace_size(x.shape())}, x.scale.options());
    with_field_type(x.a, [&]<typename T>(T) {
      kernels::cuda::norm_activation_backward<T>(x.inputs<T>(), mean, rstd, data_of<T>(grad_out),
                                                 slopes.gradients<T>(), data_of<float>(workspace),
                                                 current_stream());
    });
    return;
  }
#endif
  for_each_part(x.shape(), [&, in = x.inputs<float>(), of_in = slopes.gradients<float>(),
                            of_out = data_of<float>(grad_out)](const kernels::NormPart& part) {
    kernels::cpu::norm_activation_backward(in, part, mean, rstd, of_out, of_in);
  });
}

// Our kernels in autograd's terms. Keeps the inputs and the statistics for backward.
struct NormActivate : torch::autograd::Function<NormActivate> {
  static Tensor forward(torch::autograd::AutogradContext* context, kernels::Activation f,
                        std::int64_t groups, const Tensor& a, const Tensor& b, const Tensor& scale,
                        const Tensor& shift, const Tensor& film) {
    const Operands x{f, groups, a, b, scale, shift, film};
    const Results y{
        at::empty({a.size(0), a.size(1) + b.size(1), a.size(2), a.size(3)}, a.options(), kLayout),
        at::empty({a.size(0), groups}, scale.options()),
        at::empty({a.size(0), groups}, scale.options())};
    run_forward(x, y);
    context->save_for_backward({a, b, scale, shift, film, y.mean, y.rstd});
    context->saved_data["activation"] = static_cast<std::int64_t>(f);
    context->saved_data["groups"] = groups;
    return y.out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto f = static_cast<kernels::Activation>(context->saved_data["activation"].toInt());
    const Operands x{
        f, context->saved_data["groups"].toInt(), saved[0], saved[1], saved[2], saved[3], saved[4]};
    const Tensor rows = at::empty({x.a.size(0), x.scale.size(0)}, x.scale.options());
    const Slopes slopes{at::empty_like(x.a), at::empty_like(x.b), rows, at::empty_like(rows),
                        at::empty_like(x.film)};
    run_backward(x, {{}, saved[5], saved[6]}, grads[0].contiguous(kLayout), slopes);
    return {
        Tensor(),   Tensor(), slopes.a, slopes.b, add_rows(slopes.scale), add_rows(slopes.shift),
        slopes.film};
  }
};

// The same by LibTorch's own functions.
Tensor compose(kernels::Activation f, std::int64_t groups, const Tensor& x, const Tensor& scale,
               const Tensor& shift, const Tensor& film) {
  Tensor h = at::group_norm(x, groups, scale.to(x.scalar_type()), shift.to(x.scalar_type()),
                            kernels::kNormEpsilon);
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
  if (!has_cpu_kernel(a) && !has_cuda_kernel(a)) {
    return compose(f, groups, b.defined() ? at::cat({a, b}, 1) : a, scale, shift, film);
  }
  for (const Tensor& t : {b, film}) {
    TORCH_CHECK(!t.defined() || (t.scalar_type() == a.scalar_type() && t.device() == a.device()),
                "norm_activation: a, b and film must have one type and device");
  }
  TORCH_CHECK(scale.device() == a.device() && shift.device() == a.device(),
              "norm_activation: tensors must be on one device");
  const auto parameter = [](const Tensor& t) { return t.to(at::kFloat).contiguous(); };
  const Tensor nothing = a.narrow(1, 0, 0).detach();
  return NormActivate::apply(
      f, groups, a.contiguous(kLayout), (b.defined() ? b : nothing).contiguous(kLayout),
      parameter(scale), parameter(shift), parameter(film.defined() ? film : nothing.flatten(1)));
}

}  // namespace slift::ops
