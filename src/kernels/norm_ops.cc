#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "kernels/side_stream.h"
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
  parallel_for(shape.batch * cuts, [&](std::int64_t i) {
    body(kernels::NormPart{i / cuts, i % cuts * groups, groups});
  });
}

// What the kernels read, in ops.h's shapes, dense but for the rows of film, which may lie apart;
// the fields channels-last, all else float32. Autograd takes no undefined tensors: what is left out
// has no channels, columns or elements.
struct Operands {
  kernels::Activation f;
  std::int64_t groups;
  bool border;
  Tensor a, b, bias, scale, shift, film;

  kernels::NormShape shape() const {
    return {a.size(0), a.size(2), a.size(3), a.size(1), b.size(1), groups, border};
  }
  template <typename T>
  kernels::NormInputs<T> inputs() const {
    return {shape(),
            f,
            data_of<T>(a),
            data_of<T>(b),
            data_of<float>(bias),
            data_of<float>(scale),
            data_of<float>(shift),
            data_of<float>(film),
            film.numel() > 0 ? film.stride(0) : 0};
  }
};

struct Results {
  // Not yet filled, with `out` in `type`.
  Results(const Operands& x, at::ScalarType type) {
    const kernels::NormShape shape = x.shape();
    out = at::empty({shape.batch, shape.channels(), shape.out_height(), shape.out_width()},
                    x.a.options().dtype(type), kLayout);
    mean = at::empty({shape.batch, shape.groups}, x.scale.options());
    rstd = at::empty_like(mean);
  }

  Tensor out, mean, rstd;

  template <typename T>
  kernels::NormOutputs<T> outputs() const {
    return {data_of<T>(out), data_of<float>(mean), data_of<float>(rstd)};
  }
};

// Of backward; a, b and again without elements if nothing arrives there.
struct Arrivals {
  Tensor out, a, b, again;

  template <typename T>
  kernels::NormArrivals<T> arrivals() const {
    return {data_of<T>(out), data_of<T>(a), data_of<T>(b), data_of<T>(again)};
  }
};

struct Slopes {
  Tensor a, b, bias, scale, shift, film;

  template <typename T>
  kernels::NormGradients<T> gradients() const {
    return {data_of<T>(a),         data_of<T>(b),         data_of<float>(bias),
            data_of<float>(scale), data_of<float>(shift), data_of<float>(film)};
  }
};

#ifdef SLIFT_WITH_CUDA
template <typename T, typename Out>
void run_cuda_forward(const Operands& x, const kernels::NormOutputs<Out>& out) {
  const Tensor workspace =
      at::empty({kernels::cuda::norm_workspace_size(x.shape())}, x.scale.options());
  kernels::cuda::norm_activation(x.inputs<T>(), out, data_of<float>(workspace), current_stream());
}
#endif

void run_forward(const Operands& x, const Results& y) {
#ifdef SLIFT_WITH_CUDA
  if (x.a.is_cuda()) {
    with_field_type(x.a, [&]<typename T>(T) { run_cuda_forward<T>(x, y.outputs<T>()); });
    return;
  }
#endif
  for_each_part(x.shape(),
                [in = x.inputs<float>(), out = y.outputs<float>()](const kernels::NormPart& part) {
                  kernels::cpu::norm_activation(in, part, out);
                });
}

void run_backward(const Operands& x, const Tensor& means, const Tensor& rstds,
                  const Arrivals& arrivals, const Slopes& slopes) {
  const auto* mean = data_of<float>(means);
  const auto* rstd = data_of<float>(rstds);
#ifdef SLIFT_WITH_CUDA
  if (x.a.is_cuda()) {
    const Tensor workspace =
        at::empty({kernels::cuda::norm_workspace_size(x.shape())}, x.scale.options());
    with_field_type(x.a, [&]<typename T>(T) {
      kernels::cuda::norm_activation_backward(x.inputs<T>(), mean, rstd, arrivals.arrivals<T>(),
                                              slopes.gradients<T>(), data_of<float>(workspace),
                                              current_stream());
    });
    return;
  }
#endif
  for_each_part(x.shape(), [&, in = x.inputs<float>(), from = arrivals.arrivals<float>(),
                            to = slopes.gradients<float>()](const kernels::NormPart& part) {
    kernels::cpu::norm_activation_backward(in, part, mean, rstd, from, to);
  });
}

// Gradients of parameters: sums over samples of what run_backward() wrote, a row for each sample.
class SampleSums {
 public:
  // total [C] = sum over n of rows[n, :]. Keeps `rows` [batch, C], but not `total`.
  void add(const Tensor& rows, const Tensor& total) {
    rows_.push_back(rows);
    sums_.push_back({data_of<float>(rows), data_of<float>(total)});
  }
  bool empty() const { return sums_.empty(); }

  // On CUDA this only enqueues. On the CPU rows are added in their order, whatever the number of
  // threads.
  void run() const {
    if (empty()) return;
    const std::int64_t batch = rows_[0].size(0), channels = rows_[0].size(1);
#ifdef SLIFT_WITH_CUDA
    if (rows_[0].is_cuda()) {
      return kernels::cuda::column_sums(sums_, batch, channels, current_stream());
    }
#endif
    for (const auto& [rows, total] : sums_) {
      std::fill_n(total, channels, 0.0f);
      for (std::int64_t n = 0; n < batch; ++n) {
        for (std::int64_t c = 0; c < channels; ++c) total[c] += rows[n * channels + c];
      }
    }
  }

 private:
  std::vector<Tensor> rows_;
  std::vector<kernels::ColumnSum> sums_;
};

// Our kernels in autograd's terms: a, b, bias, scale, shift, film -> out, a, b, a. Keeps the inputs
// and the statistics for backward.
struct NormActivate : torch::autograd::Function<NormActivate> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                kernels::Activation f, std::int64_t groups,
                                                bool border, bool framed, const Tensor& a,
                                                const Tensor& b, const Tensor& bias,
                                                const Tensor& scale, const Tensor& shift,
                                                const Tensor& film) {
    const Operands x{f, groups, border, a, b, bias, scale, shift, film};
    const Results y(x, a.scalar_type());
    run_forward(x, y);
    context->save_for_backward({a, b, bias, scale, shift, film, y.mean, y.rstd});
    context->set_materialize_grads(false);
    context->saved_data["activation"] = static_cast<std::int64_t>(f);
    context->saved_data["groups"] = groups;
    context->saved_data["border"] = border && !framed;  // of the gradient that arrives
    return {framed ? inside_of(y.out) : y.out, a, b, a};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor none;
    if (!grads[0].defined()) {
      const bool both = grads[1].defined() && grads[3].defined();
      const Tensor& grad_a = grads[1].defined() ? grads[1] : grads[3];
      return {none,     none, none, none, both ? grads[1] + grads[3] : grad_a,
              grads[2], none, none, none, none};
    }
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Operands x{static_cast<kernels::Activation>(context->saved_data["activation"].toInt()),
                     context->saved_data["groups"].toInt(),
                     context->saved_data["border"].toBool(),
                     saved[0],
                     saved[1],
                     saved[2],
                     saved[3],
                     saved[4],
                     saved[5]};
    const auto dense = [&](const Tensor& grad) {
      return grad.defined() ? grad.contiguous(kLayout) : at::empty({0}, x.a.options());
    };
    const auto row_per_sample = [&](const Tensor& parameter) {
      return at::empty({x.a.size(0), parameter.size(0)}, parameter.options());
    };
    const Slopes slopes{at::empty_like(x.a),     at::empty_like(x.b),
                        row_per_sample(x.bias),  row_per_sample(x.scale),
                        row_per_sample(x.shift), at::empty(x.film.sizes(), x.film.options())};
    run_backward(x, saved[6], saved[7],
                 {dense(grads[0]), dense(grads[1]), dense(grads[2]), dense(grads[3])}, slopes);
    // Gradients of leaves are computed beside the rest of backward, which does not wait for them.
    SampleSums here, beside;
    const auto total = [&](std::size_t input, const Tensor& parameter, const Tensor& rows) {
      if (!context->needs_input_grad(input)) return none;
      const Tensor sum = at::empty_like(parameter);
      (becomes_the_gradient(parameter) ? beside : here).add(rows, sum);
      return sum;
    };
    const Tensor bias = total(2, x.bias, slopes.bias), scale = total(3, x.scale, slopes.scale),
                 shift = total(4, x.shift, slopes.shift);
    if (!beside.empty()) run_beside_backward(x.a.device(), [beside] { beside.run(); });
    here.run();
    return {none, none, none, none, slopes.a, slopes.b, bias, scale, shift, slopes.film};
  }
};

// The same by LibTorch's own functions.
Tensor compose(const NormArgs& args) {
  Tensor h = args.b.defined() ? at::cat({args.a, args.b}, 1) : args.a;
  const at::ScalarType type = h.scalar_type();
  if (args.bias.defined()) h = h + args.bias.to(type).view({1, -1, 1, 1});
  h = at::group_norm(h, args.groups, args.scale.to(type), args.shift.to(type),
                     kernels::kNormEpsilon);
  if (args.film.defined()) {
    const std::vector<Tensor> parts = args.film.to(type).view({h.size(0), -1, 1, 1}).chunk(2, 1);
    h = at::addcmul(parts[1], h, 1 + parts[0]);
  }
  h = args.f == kernels::Activation::kSilu ? at::silu(h) : at::gelu(h, "tanh");
  return args.border ? pad_circular(h) : h;
}

void check(const NormArgs& args) {
  expect_shape(args.a, {kAny, kAny, kAny, kAny}, "norm_activation: a");
  const std::int64_t batch = args.a.size(0);
  std::int64_t channels = args.a.size(1);
  if (args.b.defined()) {
    expect_shape(args.b, {batch, kAny, args.a.size(2), args.a.size(3)}, "norm_activation: b");
    channels += args.b.size(1);
  }
  expect_shape(args.scale, {channels}, "norm_activation: scale");
  expect_shape(args.shift, {channels}, "norm_activation: shift");
  if (args.bias.defined()) expect_shape(args.bias, {channels}, "norm_activation: bias");
  if (args.film.defined()) expect_shape(args.film, {batch, 2 * channels}, "norm_activation: film");
  TORCH_CHECK(!args.framed || (args.border && args.a.is_cuda()),
              "norm_activation: framed results have a border, on CUDA");
  TORCH_CHECK(args.groups > 0 && channels % args.groups == 0,
              "norm_activation: groups must divide channels");
  const at::ScalarType type = args.a.scalar_type();
  TORCH_CHECK(!args.b.defined() || args.b.scalar_type() == type,
              "norm_activation: a and b must have one type");
  TORCH_CHECK(!args.film.defined() || args.film.scalar_type() == type ||
                  args.film.scalar_type() == at::kFloat,
              "norm_activation: film must have the type of a or be float32");
  for (const Tensor& t : {args.b, args.bias, args.scale, args.shift, args.film}) {
    TORCH_CHECK(!t.defined() || t.device() == args.a.device(),
                "norm_activation: tensors must be on one device");
  }
}

// As the kernels take them.
Operands operands_of(const NormArgs& args) {
  const Tensor nothing = args.a.narrow(1, 0, 0).detach();
  const auto field = [&](const Tensor& t) {
    return (t.defined() ? t : nothing).contiguous(kLayout);
  };
  const auto parameter = [&](const Tensor& t) {
    return (t.defined() ? t : nothing.flatten()).to(at::kFloat).contiguous();
  };
  const Tensor film = (args.film.defined() ? args.film : nothing.flatten(1)).to(at::kFloat);
  return {args.f,
          args.groups,
          args.border,
          field(args.a),
          field(args.b),
          parameter(args.bias),
          parameter(args.scale),
          parameter(args.shift),
          film.stride(1) == 1 ? film : film.contiguous()};
}

}  // namespace

Normed norm_activation(const NormArgs& args) {
  check(args);
  if (!has_cpu_kernel(args.a) && !has_cuda_kernel(args.a))
    return {compose(args), args.a, args.b, args.a};
  const Operands x = operands_of(args);
  const torch::autograd::variable_list y = NormActivate::apply(
      x.f, x.groups, x.border, args.framed, x.a, x.b, x.bias, x.scale, x.shift, x.film);
  return {y[0], y[1], args.b.defined() ? y[2] : Tensor(), y[3]};
}

Tensor norm_activation_fp8(const NormArgs& args, double gain) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "norm_activation_fp8: there are no gradients");
#ifdef SLIFT_WITH_CUDA
  if (args.a.is_cuda() && args.a.scalar_type() == at::kBFloat16) {
    check(args);
    const Operands x = operands_of(args);
    const Results y(x, at::kByte);
    kernels::NormOutputs<kernels::Fp8> out = y.outputs<kernels::Fp8>();
    out.gain = static_cast<float>(gain);
    run_cuda_forward<kernels::BFloat16>(x, out);
    return y.out;
  }
#endif
  return to_fp8(norm_activation(args).out, gain);
}

}  // namespace slift::ops
