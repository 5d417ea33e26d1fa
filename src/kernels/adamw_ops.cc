#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/kernel_choice.h"
#include "kernels/ops.h"

namespace slift::ops {
namespace {

// Elements one thread takes at a time. Fixed, so that blocked sums do not depend on threads.
constexpr std::int64_t kShare = 1 << 14;

// Calls body(block, tensor index, first element, count) for blocks of all tensors, in parallel.
template <typename Body>
void for_each_block(const std::vector<Tensor>& tensors, const Body& body) {
  struct Block {
    std::size_t tensor;
    std::int64_t first, count;
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::int64_t first = 0; first < tensors[i].numel(); first += kShare) {
      blocks.push_back({i, first, std::min(kShare, tensors[i].numel() - first)});
    }
  }
  parallel_for(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t b) {
    const Block& block = blocks[static_cast<std::size_t>(b)];
    body(b, block.tensor, block.first, block.count);
  });
}

// Whether the elements of both stand in one order, without gaps.
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || !a.is_non_overlapping_and_dense()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

void check_type(const Tensor& t, at::ScalarType type, const at::Device& device, const char* what) {
  TORCH_CHECK(t.scalar_type() == type && t.device() == device, what, ": expected ", type, " on ",
              device, ", got ", t.scalar_type(), " on ", t.device());
}

void check_gradient(const Tensor& grad, const at::Device& device, const char* what) {
  const bool rounded = grad.scalar_type() == at::kBFloat16;
  check_type(grad, rounded ? at::kBFloat16 : at::kFloat, device, what);
}

std::vector<Tensor> in_float32(const std::vector<Tensor>& grads) {
  std::vector<Tensor> result;
  for (const Tensor& g : grads) result.push_back(g.to(at::kFloat));
  return result;
}

#ifdef SLIFT_WITH_CUDA
kernels::Gradient gradient_of(const Tensor& grad) {
  return {data_of<const void>(grad), grad.numel(), grad.scalar_type() == at::kBFloat16};
}
#else
void check_on_cpu(const Tensor& t, const char* what) {
  TORCH_CHECK(t.is_cpu(), what, ": this build has no CUDA kernels");
}
#endif

}  // namespace

Tensor laid_out_like(const Tensor& x, const Tensor& like) {
  return same_layout(x, like) ? x : at::empty_like(like, x.options()).copy_(x);
}

void global_norm(const std::vector<Tensor>& grads, Tensor& norm) {
  TORCH_CHECK(norm.scalar_type() == at::kDouble && norm.numel() == 1,
              "global_norm: the norm is one float64");
  for (const Tensor& g : grads) {
    check_gradient(g, norm.device(), "global_norm");
    TORCH_CHECK(g.is_non_overlapping_and_dense(), "global_norm: a gradient has gaps");
  }
#ifdef SLIFT_WITH_CUDA
  if (norm.is_cuda()) {
    std::vector<kernels::Gradient> gradients;
    for (const Tensor& g : grads) gradients.push_back(gradient_of(g));
    const Tensor partials = at::empty({kernels::cuda::norm_partials(gradients)}, norm.options());
    kernels::cuda::global_norm(gradients, data_of<double>(partials), data_of<double>(norm),
                               current_stream());
    return;
  }
#else
  check_on_cpu(norm, "global_norm");
#endif
  std::int64_t blocks = 0;
  for (const Tensor& g : grads) blocks += (g.numel() + kShare - 1) / kShare;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  const std::vector<Tensor> wide = in_float32(grads);
  for_each_block(wide, [&](std::int64_t b, std::size_t i, std::int64_t first, std::int64_t n) {
    sums[static_cast<std::size_t>(b)] =
        kernels::cpu::sum_of_squares(wide[i].data_ptr<float>() + first, n);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  *norm.data_ptr<double>() = std::sqrt(total);
}

void adamw(const Tensor& step, const Tensor& norm, const std::vector<Tensor>& grads,
           AdamWState& state) {
  const std::size_t count = state.params.size();
  TORCH_CHECK(grads.size() == count && state.first.size() == count &&
                  state.second.size() == count && state.ema.size() == count &&
                  state.copies.size() == count,
              "adamw: one tensor of each kind per parameter");
  const at::Device device = step.device();
  check_type(step, at::kByte, device, "adamw: step");
  check_type(norm, at::kDouble, device, "adamw: norm");
  TORCH_CHECK(step.nbytes() == sizeof(kernels::AdamWStep) && norm.numel() == 1,
              "adamw: step or norm has another size");
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& param = state.params[i];
    for (const Tensor& t : {param, state.first[i], state.second[i], state.ema[i]}) {
      check_type(t, at::kFloat, device, "adamw");
      TORCH_CHECK(same_layout(t, param), "adamw: layouts differ");
    }
    check_gradient(grads[i], device, "adamw: gradient");
    TORCH_CHECK(same_layout(grads[i], param), "adamw: layouts differ");
    if (!state.copies[i].defined()) continue;
    check_type(state.copies[i], at::kBFloat16, device, "adamw: copy");
    TORCH_CHECK(same_layout(state.copies[i], param), "adamw: layouts differ");
  }
  const auto* numbers = data_of<const kernels::AdamWStep>(step);
#ifdef SLIFT_WITH_CUDA
  if (device.is_cuda()) {
    std::vector<kernels::AdamWTensor> tensors;
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& copy = state.copies[i];
      tensors.push_back({gradient_of(grads[i]), data_of<float>(state.params[i]),
                         data_of<float>(state.first[i]), data_of<float>(state.second[i]),
                         data_of<float>(state.ema[i]),
                         copy.defined() ? data_of<kernels::BFloat16>(copy) : nullptr});
    }
    kernels::cuda::adamw(numbers, data_of<const double>(norm), tensors, current_stream());
    return;
  }
#else
  check_on_cpu(step, "adamw");
#endif
  const std::vector<Tensor> wide = in_float32(grads);
  for_each_block(wide, [&](std::int64_t, std::size_t i, std::int64_t first, std::int64_t n) {
    kernels::cpu::adamw(
        *numbers, *norm.data_ptr<double>(), n, wide[i].data_ptr<float>() + first,
        state.params[i].data_ptr<float>() + first, state.first[i].data_ptr<float>() + first,
        state.second[i].data_ptr<float>() + first, state.ema[i].data_ptr<float>() + first);
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (state.copies[i].defined()) state.copies[i].copy_(state.params[i]);
  }
}

}  // namespace slift::ops
