#include <torch/autograd.h>

#include "kernels/kernel_choice.h"
#include "kernels/ops.h"
#include "tensor/shapes.h"

namespace slift::ops {
namespace {

#ifdef SLIFT_WITH_CUDA

struct Interleave : torch::autograd::Function<Interleave> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& y) {
    const kernels::FieldShape shape{y.size(2) - 1, y.size(3) - 1, y.size(1) / 4};
    const Tensor out = at::empty({y.size(0), shape.channels, 2 * shape.height, 2 * shape.width},
                                 y.options(), at::MemoryFormat::ChannelsLast);
    with_field_type(y, [&]<typename T>(T) {
      kernels::cuda::interleave<T>(shape, y.size(0), data_of<T>(y), data_of<T>(out),
                                   current_stream());
    });
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {separate(grads[0])};
  }
};

#endif

}  // namespace

Tensor interleave(const Tensor& y) {
  expect_shape(y, {kAny, kAny, kAny, kAny}, "interleave: y");
  TORCH_CHECK(y.size(1) % 4 == 0, "interleave: channels must be a multiple of 4");
#ifdef SLIFT_WITH_CUDA
  if (has_cuda_kernel(y)) return Interleave::apply(y.contiguous(at::MemoryFormat::ChannelsLast));
#endif
  const std::int64_t height = y.size(2) - 1, width = y.size(3) - 1, channels = y.size(1) / 4;
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < 2; ++i) {
    std::vector<Tensor> columns;
    for (std::int64_t j = 0; j < 2; ++j) {
      columns.push_back(
          y.narrow(1, (2 * i + j) * channels, channels).narrow(2, i, height).narrow(3, j, width));
    }
    rows.push_back(at::stack(columns, -1));
  }
  return at::stack(rows, 3)
      .reshape({y.size(0), channels, 2 * height, 2 * width})
      .contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace slift::ops
