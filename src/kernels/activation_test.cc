#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

using kernels::Activation;

double value(Activation f, double x) {
  const double z =
      f == Activation::kSilu ? x : 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-z));
}

// Central difference in float64: exact to 1e-9 here.
double slope(Activation f, double x) {
  const double h = 1e-5;
  return (value(f, x + h) - value(f, x - h)) / (2 * h);
}

class Activations : public testing::TestWithParam<at::Device> {};

TEST_P(Activations, AgreeWithFloat64) {
  // Every scale from denormal to overflow of the exponential, both signs.
  const Tensor x = at::cat(
      {at::linspace(-12, 12, 100001), at::tensor({-1e30f, -1e4f, -200.0f, -90.0f, -1e-20f, 0.0f,
                                                  1e-20f, 90.0f, 200.0f, 1e4f, 1e10f})});
  const Tensor grad = at::linspace(-2, 3, x.numel());
  for (const Activation f : {Activation::kGelu, Activation::kSilu}) {
    const Tensor out = ops::activation(f, x.to(GetParam())).to(at::kCPU);
    const Tensor back =
        ops::activation_backward(f, x.to(GetParam()), grad.to(GetParam())).to(at::kCPU);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double at = x[i].item<double>();
      if (i % 97 != 0 && i < 100001) continue;
      // Far below 0 the product is cut off at x exp(-87), far above 0 it is x.
      ASSERT_NEAR(out[i].item<double>(), value(f, at), 1e-6 * std::max(1.0, at)) << at;
      if (std::abs(at) > 1e4) continue;
      const double g = grad[i].item<double>();
      ASSERT_NEAR(back[i].item<double>(), g * slope(f, at), 4e-6 * std::max(1.0, std::abs(g)))
          << at;
    }
  }
}

TEST_P(Activations, OddSizesAndStrides) {
  const Tensor x = at::linspace(-3, 3, 35).view({5, 7}).to(GetParam());
  const Tensor t = ops::activation(Activation::kGelu, x.t()).to(at::kCPU);
  EXPECT_TRUE(at::equal(t, ops::activation(Activation::kGelu, x).to(at::kCPU).t()));
  EXPECT_EQ(ops::activation(Activation::kGelu, x.narrow(0, 0, 0)).numel(), 0);
}

TEST_P(Activations, ChannelsLastStaysChannelsLast) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const Tensor x = at::linspace(-3, 3, 2 * 3 * 4 * 5).view({2, 3, 4, 5}).to(GetParam());
  const Tensor grad = at::linspace(-1, 2, x.numel()).view_as(x).to(GetParam());
  const Tensor out = ops::activation(Activation::kGelu, x.contiguous(last));
  EXPECT_TRUE(out.is_contiguous(last));
  EXPECT_TRUE(at::allclose(out, ops::activation(Activation::kGelu, x), 1e-6, 1e-7));
  const Tensor expected = ops::activation_backward(Activation::kGelu, x, grad);
  // The gradient's own layout must not matter.
  for (const Tensor& g : {grad, grad.contiguous(last)}) {
    const Tensor back = ops::activation_backward(Activation::kGelu, x.contiguous(last), g);
    EXPECT_TRUE(at::allclose(back, expected, 1e-6, 1e-7));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Activations, testing::ValuesIn(test_devices()), DeviceName());

TEST(ActivationThreads, BitsDoNotDependOnThem) {
  const Tensor x = at::linspace(-5, 5, 100003);
  at::set_num_threads(1);
  const Tensor one = ops::activation(Activation::kGelu, x);
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(one, ops::activation(Activation::kGelu, x)));
}

}  // namespace
}  // namespace slift
