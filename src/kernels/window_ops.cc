#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

// One number per channel of the window's states, which it broadcasts with.
void expect_per_channel(const Tensor& x, const Tensor& window, const char* name) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.device() == window.device() &&
                  x.dim() == window.dim() - 2 && x.size(0) == window.size(2) &&
                  x.numel() == x.size(0) && x.is_contiguous(),
              name, ": one float32 per channel, got ", x.sizes());
}

#ifdef SLIFT_WITH_CUDA

kernels::WindowShape shape_of_window(const Tensor& window) {
  const bool fields = window.dim() == 5;
  return {window.size(0), window.size(1), window.size(2), fields ? window.size(3) : 1,
          fields ? window.size(4) : 1};
}

// Whether sample, channel and cell each have one stride, as the kernel reads them.
bool has_even_cells(const Tensor& net) {
  return net.dim() == 2 || net.stride(2) == net.size(3) * net.stride(3);
}

template <typename T>
void push_on_cuda(const Tensor& window, const Tensor& net, const Tensor& offset,
                  const Tensor& scale) {
  kernels::cuda::push_state<T>({.shape = shape_of_window(window),
                                .net = data_of<T>(net),
                                .sample_stride = net.stride(0),
                                .channel_stride = net.stride(1),
                                .cell_stride = net.dim() == 4 ? net.stride(3) : 0,
                                .offset = offset.defined() ? data_of<float>(offset) : nullptr,
                                .scale = data_of<float>(scale),
                                .window = data_of<float>(window)},
                               current_stream());
}

#endif

}  // namespace

Tensor pack_window(const Tensor& window, const Tensor& mean, const Tensor& std,
                   const InputLayout& layout) {
  expect_shape(window, {kAny, kAny, kAny, kAny, kAny}, "pack_window: window");
  TORCH_CHECK(!at::GradMode::is_enabled(), "pack_window: there are no gradients");
  TORCH_CHECK(window.scalar_type() == at::kFloat, "pack_window: the window must be float32");
  expect_per_channel(mean, window, "pack_window: mean");
  expect_per_channel(std, window, "pack_window: std");
  const std::int64_t missing = layout.channels - window.size(1) * window.size(2);
  TORCH_CHECK(missing >= 0, "pack_window: the window has more channels than the layout");
#ifdef SLIFT_WITH_CUDA
  if (window.is_cuda() && layout.type == at::kBFloat16 && layout.channels % 8 == 0) {
    const Tensor dense = window.contiguous();
    const std::int64_t around = layout.border ? 2 : 0;
    const Tensor out = at::empty(
        {window.size(0), layout.channels, window.size(3) + around, window.size(4) + around},
        window.options().dtype(layout.type), at::MemoryFormat::ChannelsLast);
    kernels::cuda::pack_window({.shape = shape_of_window(dense),
                                .window = data_of<float>(dense),
                                .mean = data_of<float>(mean),
                                .std = data_of<float>(std),
                                .border = layout.border,
                                .packed = layout.channels,
                                .out = data_of<kernels::BFloat16>(out)},
                               current_stream());
    return out;
  }
#endif
  const Tensor scaled = ((window - mean) / std).flatten(1, 2).to(layout.type);
  const Tensor all = missing > 0 ? at::constant_pad_nd(scaled, {0, 0, 0, 0, 0, missing}) : scaled;
  return layout.border ? pad_circular(all) : all.contiguous(at::MemoryFormat::ChannelsLast);
}

void push_state(const Tensor& window, const Tensor& net, const Tensor& offset,
                const Tensor& scale) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "push_state: there are no gradients");
  TORCH_CHECK((window.dim() == 3 || window.dim() == 5) && window.scalar_type() == at::kFloat &&
                  window.is_contiguous(),
              "push_state: the window must be [B, m, state...], float32 and row-major");
  const Tensor last = window.select(1, -1);
  TORCH_CHECK(net.sizes() == last.sizes() && net.device() == window.device(),
              "push_state: the network's output ", net.sizes(), " for states ", last.sizes());
  if (offset.defined()) expect_per_channel(offset, window, "push_state: offset");
  expect_per_channel(scale, window, "push_state: scale");
#ifdef SLIFT_WITH_CUDA
  if (has_cuda_kernel(net)) {
    const Tensor even = has_even_cells(net) ? net : net.clone(at::MemoryFormat::Contiguous);
    with_field_type(net, [&]<typename T>(T) { push_on_cuda<T>(window, even, offset, scale); });
    return;
  }
#endif
  const Tensor next = (offset.defined() ? offset : last) + scale * net;
  for (std::int64_t i = 0; i + 1 < window.size(1); ++i) {
    window.select(1, i).copy_(window.select(1, i + 1));
  }
  last.copy_(next);
}

}  // namespace slift::ops
