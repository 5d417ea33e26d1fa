#include "kernels/ops.h"

#include "core/parallel.h"
#include "kernels/kernel_choice.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

// Elements one thread takes at a time.
constexpr std::int64_t kBlock = 1 << 14;

}  // namespace

Tensor draw_labels(std::uint64_t seed, Purpose purpose, const Tensor& index, const Tensor& step,
                   std::int64_t dim, kernels::LabelKind kind) {
  const Tensor out = at::empty({index.numel(), dim}, index.options().dtype(at::kFloat));
  draw_labels(seed, purpose, index, step, kind, out);
  return out;
}

void draw_labels(std::uint64_t seed, Purpose purpose, const Tensor& index, const Tensor& step,
                 kernels::LabelKind kind, const Tensor& out) {
  expect_shape(index, {kAny}, "draw_labels: index");
  TORCH_CHECK(index.scalar_type() == at::kLong, "draw_labels: index must be int64");
  TORCH_CHECK(!step.defined() || (step.numel() == 1 && step.scalar_type() == at::kLong &&
                                  step.device() == index.device()),
              "draw_labels: step must be one int64 on the device of index");
  expect_shape(out, {index.size(0), kAny}, "draw_labels: out");
  TORCH_CHECK(
      out.scalar_type() == at::kFloat && out.device() == index.device() && out.is_contiguous(),
      "draw_labels: out must be float32, row-major, on the device of index");
  const Tensor dense = index.contiguous();
  const std::int64_t dim = out.size(1);
  kernels::LabelArgs args{seed,
                          purpose,
                          dense.data_ptr<std::int64_t>(),
                          step.defined() ? step.data_ptr<std::int64_t>() : nullptr,
                          dense.size(0),
                          dim,
                          kind,
                          out.data_ptr<float>()};
  if (dense.is_cuda()) {
#ifdef SLIFT_WITH_CUDA
    kernels::cuda::draw_labels(args, current_stream());
    return;
#else
    TORCH_CHECK(false, "draw_labels: this build has no CUDA kernels");
#endif
  }
  parallel_for_pieces(args.rows, 64, [&](std::int64_t begin, std::int64_t end) {
    kernels::LabelArgs part = args;
    part.index += begin;
    part.rows = end - begin;
    part.out += begin * dim;
    kernels::cpu::draw_labels(part);
  });
}

namespace {

// `x` without gaps: channels-last stays channels-last, every other layout becomes row-major. Two
// tensors packed `like` the same one have their elements in the same order.
Tensor packed(const Tensor& x, const Tensor& like) {
  return x.contiguous(like.suggest_memory_format());
}

}  // namespace

Tensor activation(kernels::Activation f, const Tensor& x) {
  if (!has_cpu_kernel(x))
    return f == kernels::Activation::kSilu ? at::silu(x) : at::gelu(x, "tanh");
  const Tensor dense = packed(x, x);
  Tensor out = at::empty_like(dense);
  parallel_for_pieces(dense.numel(), kBlock, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::activation(f, end - begin, dense.data_ptr<float>() + begin,
                             out.data_ptr<float>() + begin);
  });
  return out;
}

Tensor activation_backward(kernels::Activation f, const Tensor& x, const Tensor& grad_out) {
  TORCH_CHECK(x.sizes() == grad_out.sizes(), "activation_backward: shapes differ");
  if (!has_cpu_kernel(x)) {
    return f == kernels::Activation::kSilu ? at::silu_backward(grad_out, x)
                                           : at::gelu_backward(grad_out, x, "tanh");
  }
  const Tensor dense = packed(x, x), grad = packed(grad_out, x);
  TORCH_CHECK(has_cpu_kernel(grad), "activation_backward: expected a float32 CPU gradient");
  Tensor out = at::empty_like(dense);
  parallel_for_pieces(dense.numel(), kBlock, [&](std::int64_t begin, std::int64_t end) {
    kernels::cpu::activation_backward(f, end - begin, dense.data_ptr<float>() + begin,
                                      grad.data_ptr<float>() + begin,
                                      out.data_ptr<float>() + begin);
  });
  return out;
}

void add_squared_distances(const Tensor& a, const Tensor& b, Tensor& out) {
  expect_shape(a, {kAny, kAny}, "add_squared_distances: a");
  expect_shape(b, {kAny, a.size(1)}, "add_squared_distances: b");
  expect_shape(out, {a.size(0), b.size(0)}, "add_squared_distances: out");
  TORCH_CHECK(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
                  out.scalar_type() == at::kDouble,
              "add_squared_distances: a and b must be float32, out float64");
  TORCH_CHECK(a.is_contiguous() && b.is_contiguous() && out.is_contiguous(),
              "add_squared_distances: tensors must be contiguous");
  TORCH_CHECK(a.device() == out.device() && b.device() == out.device(),
              "add_squared_distances: tensors must be on one device");
  const kernels::DistanceArgs args{a.data_ptr<float>(), b.data_ptr<float>(),   a.size(0), b.size(0),
                                   a.size(1),           out.data_ptr<double>()};
  if (out.is_cuda()) {
#ifdef SLIFT_WITH_CUDA
    kernels::cuda::squared_distances(args, current_stream());
    return;
#else
    TORCH_CHECK(false, "add_squared_distances: this build has no CUDA kernels");
#endif
  }
  parallel_for_pieces(args.na, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels::DistanceArgs part = args;
    part.a += begin * args.n;
    part.na = end - begin;
    part.out += begin * args.nb;
    kernels::cpu::squared_distances(part);
  });
}

}  // namespace slift::ops
