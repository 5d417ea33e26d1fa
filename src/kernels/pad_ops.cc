#include <torch/autograd.h>

#include "core/parallel.h"
#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
constexpr std::int64_t kRowsAtOnce = 16;  // some 64 KiB of a row of 32 cells and 32 channels

void pad_by_views(const Tensor& x, const Tensor& out) {
  const std::int64_t height = x.size(2), width = x.size(3);
  out.narrow(2, 1, height).narrow(3, 1, width).copy_(x);
  // The columns go last: they bring the corners.
  out.select(2, 0).copy_(out.select(2, height));
  out.select(2, height + 1).copy_(out.select(2, 1));
  out.select(3, 0).copy_(out.select(3, width));
  out.select(3, width + 1).copy_(out.select(3, 1));
}

Tensor fold_by_views(const Tensor& grad) {
  const std::int64_t height = grad.size(2) - 2, width = grad.size(3) - 2;
  const Tensor sum = grad.narrow(2, 1, height).clone(kChannelsLast);
  sum.select(2, height - 1).add_(grad.select(2, 0));
  sum.select(2, 0).add_(grad.select(2, height + 1));
  sum.select(3, width).add_(sum.select(3, 0));
  sum.select(3, 1).add_(sum.select(3, width + 1));
  return sum.narrow(3, 1, width);
}

Tensor pad(const Tensor& x) {
  const kernels::FieldShape shape{x.size(2), x.size(3), x.size(1)};
  Tensor out = at::empty({x.size(0), shape.channels, shape.height + 2, shape.width + 2},
                         x.options(), kChannelsLast);
  if (!has_cpu_kernel(x) && !has_cuda_kernel(x)) {
    pad_by_views(x, out);
    return out;
  }
  const Tensor dense = x.contiguous(kChannelsLast);
  const std::int64_t rows = x.size(0) * (shape.height + 2);
#ifdef SLIFT_WITH_CUDA
  if (x.is_cuda()) {
    with_field_type(x, [&]<typename T>(T) {
      kernels::cuda::pad_circular<T>(shape, rows, data_of<T>(dense), data_of<T>(out),
                                     current_stream());
    });
    return out;
  }
#endif
  parallel_for_pieces(rows, kRowsAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      kernels::cpu::pad_circular(shape, row, dense.data_ptr<float>(), out.data_ptr<float>());
    }
  });
  return out;
}

Tensor fold(const Tensor& images_too) {
  if (!has_cpu_kernel(images_too) && !has_cuda_kernel(images_too)) return fold_by_views(images_too);
  const Tensor grad = images_too.contiguous(kChannelsLast);
  const kernels::FieldShape shape{grad.size(2) - 2, grad.size(3) - 2, grad.size(1)};
  Tensor out = at::empty({grad.size(0), shape.channels, shape.height, shape.width}, grad.options(),
                         kChannelsLast);
  const std::int64_t rows = grad.size(0) * shape.height;
#ifdef SLIFT_WITH_CUDA
  if (grad.is_cuda()) {
    with_field_type(grad, [&]<typename T>(T) {
      kernels::cuda::pad_circular_backward<T>(shape, rows, data_of<T>(grad), data_of<T>(out),
                                              current_stream());
    });
    return out;
  }
#endif
  parallel_for_pieces(rows, kRowsAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      kernels::cpu::pad_circular_backward(shape, row, grad.data_ptr<float>(),
                                          out.data_ptr<float>());
    }
  });
  return out;
}

// LibTorch's own circular padding gives up channels-last and copies once per border under autograd.
struct PadCircular : torch::autograd::Function<PadCircular> {
  static Tensor forward(torch::autograd::AutogradContext* context, bool framed, const Tensor& x) {
    context->saved_data["framed"] = framed;
    return framed ? inside_of(pad(x)) : pad(x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {Tensor(), context->saved_data["framed"].toBool() ? grads[0] : fold(grads[0])};
  }
};

}  // namespace

Tensor pad_circular(const Tensor& x, bool framed) {
  expect_shape(x, {kAny, kAny, kAny, kAny}, "pad_circular: x");
  return PadCircular::apply(framed, x);
}

}  // namespace slift::ops
