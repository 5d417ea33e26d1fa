#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

// The definition, element by element.
TEST(Interleave, BringsFourFieldsTogetherAndTheirGradientsBack) {
  struct Field {
    std::int64_t channels, height, width;
  };
  for (const at::Device& device : test_devices()) {
    for (const auto& [channels, height, width] :
         {Field{3, 2, 3}, Field{8, 1, 1}, Field{16, 5, 70}, Field{1, 4, 1}}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const std::vector<std::int64_t> shape = {2, 4 * channels, height + 1, width + 1};
        const Tensor y = at::arange(8 * channels * (height + 1) * (width + 1), at::kFloat)
                             .mul(0.7)
                             .cos()
                             .view(shape)
                             .to(device, type)
                             .requires_grad_();
        const Tensor out = ops::interleave(y);
        ASSERT_EQ(out.sizes(), at::IntArrayRef({2, channels, 2 * height, 2 * width}));
        EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
        const Tensor weight =
            at::arange(out.numel(), at::kFloat).mul(0.3).sin().view_as(out).to(device, type);
        (out * weight).sum().backward();
        const Tensor in = y.detach().to(at::kCPU, at::kFloat);
        const Tensor found = out.detach().to(at::kCPU, at::kFloat);
        const Tensor grad = weight.to(at::kCPU, at::kFloat);
        Tensor expected = at::zeros_like(found), back = at::zeros_like(in);
        for (std::int64_t r = 0; r < 2 * height; ++r) {
          for (std::int64_t c = 0; c < 2 * width; ++c) {
            const std::int64_t i = r % 2, j = c % 2, first = (2 * i + j) * channels;
            const auto of = [&](const Tensor& t) {
              return t.narrow(1, first, channels).select(2, r / 2 + i).select(2, c / 2 + j);
            };
            expected.select(2, r).select(2, c).copy_(of(in));
            of(back).copy_(grad.select(2, r).select(2, c));
          }
        }
        EXPECT_TRUE(found.equal(expected)) << device << " " << type;
        EXPECT_TRUE(y.grad().to(at::kCPU, at::kFloat).equal(back)) << device << " " << type;
      }
    }
  }
}

}  // namespace
}  // namespace slift
