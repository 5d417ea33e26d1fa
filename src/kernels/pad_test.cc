#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

class PadOnDevice : public testing::TestWithParam<at::Device> {};

TEST_P(PadOnDevice, IsLibTorchsOwn) {
  // Sides of one cell are their own images on both ends. Sums of up to nine images, which LibTorch
  // rounds after each.
  struct Field {
    std::int64_t channels, height, width;
  };
  for (const auto& [channels, height, width] :
       {Field{3, 5, 4}, Field{3, 1, 3}, Field{3, 2, 1}, Field{3, 1, 1}, Field{3, 40, 3},
        Field{8, 5, 4}, Field{8, 1, 1}, Field{16, 3, 70}}) {
    for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-6}, std::pair{at::kDouble, 1e-6},
                                          std::pair{at::kBFloat16, 0.05}}) {
      const std::vector<std::int64_t> shape = {2, channels, height, width};
      Tensor x = at::arange(2 * channels * height * width, at::kFloat).mul(0.7).cos().view(shape);
      x = x.to(GetParam(), type).requires_grad_();
      Tensor y = x.detach().clone().requires_grad_();
      const Tensor ours = ops::pad_circular(x), theirs = at::pad(y, {1, 1, 1, 1}, "circular");
      EXPECT_TRUE(at::equal(ours, theirs)) << at::IntArrayRef(shape);
      EXPECT_TRUE(ours.is_contiguous(at::MemoryFormat::ChannelsLast));
      const Tensor weight = at::arange(theirs.numel(), at::kFloat).mul(0.3).sin().view_as(theirs);
      (ours * weight.to(GetParam(), type)).sum().backward();
      (theirs * weight.to(GetParam(), type)).sum().backward();
      EXPECT_TRUE(at::allclose(x.grad(), y.grad(), tolerance, tolerance))
          << at::IntArrayRef(shape) << " " << type;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PadOnDevice, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
