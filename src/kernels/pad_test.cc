#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

class PadOnDevice : public testing::TestWithParam<at::Device> {};

TEST_P(PadOnDevice, IsLibTorchsOwn) {
  // Sides of one cell are their own images on both ends. Sums of up to nine images.
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{5, 4}, {1, 3}, {2, 1}, {1, 1}, {40, 3}}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      Tensor x =
          at::arange(2 * 3 * height * width, type).mul(0.7).cos().view({2, 3, height, width});
      x = x.to(GetParam()).requires_grad_();
      Tensor y = x.detach().clone().requires_grad_();
      const Tensor ours = ops::pad_circular(x), theirs = at::pad(y, {1, 1, 1, 1}, "circular");
      EXPECT_TRUE(at::equal(ours, theirs)) << height << " x " << width;
      EXPECT_TRUE(ours.is_contiguous(at::MemoryFormat::ChannelsLast));
      const Tensor weight = at::arange(theirs.numel(), type).mul(0.3).sin().view_as(theirs);
      (ours * weight.to(GetParam())).sum().backward();
      (theirs * weight.to(GetParam())).sum().backward();
      EXPECT_TRUE(at::allclose(x.grad(), y.grad(), 1e-6, 1e-6)) << height << " x " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PadOnDevice, testing::ValuesIn(test_devices()),
                         [](const auto& device) {
                           return device.param.is_cuda() ? "cuda" : "cpu";
                         });

}  // namespace
}  // namespace slift
