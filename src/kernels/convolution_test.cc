#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "kernels/ops.h"
#include "tensor/runtime.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

struct ConvCase {
  const char* name;
  std::int64_t batch, inputs, outputs, height, width, kernel, stride, border;
  bool bias, residual;
};

constexpr ConvCase kConvCases[] = {
    {"plain", 2, 16, 24, 7, 5, 3, 1, 1, false, false},
    {"bias", 2, 16, 24, 7, 5, 3, 1, 1, true, false},
    {"bias and residual", 3, 16, 24, 7, 5, 3, 1, 1, true, true},
    {"residual", 3, 16, 16, 6, 6, 3, 1, 1, false, true},
    {"no border", 2, 8, 16, 9, 6, 3, 1, 0, true, true},
    {"stride 2", 2, 16, 24, 8, 6, 3, 2, 1, true, false},
    {"stride 2, no border", 2, 16, 24, 10, 8, 3, 2, 0, true, false},
    {"1 x 1", 2, 32, 16, 5, 7, 1, 1, 0, true, true},
    {"one cell", 1, 8, 8, 1, 1, 3, 1, 1, true, true},
    {"2 x 2", 2, 16, 64, 6, 5, 2, 1, 1, true, false},
    {"many cells", 2, 8, 8, 50, 50, 3, 1, 1, true, true},
    {"many cells, 72 channels", 2, 8, 72, 37, 61, 1, 1, 0, true, false},
    {"many channels", 2, 128, 64, 8, 8, 3, 1, 1, true, true},
    // By kernels of our own on CUDA (cuda/thin_convolution.h): a strip is 30 columns wide, or 16.
    {"128 to 8", 2, 128, 8, 11, 35, 3, 1, 1, true, false},
    {"128 to 8, no border", 1, 128, 8, 7, 32, 3, 1, 0, true, false},
    {"48 to 8", 3, 48, 8, 20, 33, 3, 1, 0, false, false},
    {"8 to 8", 2, 8, 8, 3, 5, 3, 1, 1, true, false},
    {"16 to 8, one cell", 2, 16, 8, 1, 1, 3, 1, 1, true, false},
    {"16 to 128", 2, 16, 128, 5, 19, 3, 1, 1, true, false},
    {"16 to 128, no border", 1, 16, 128, 7, 18, 3, 1, 0, false, false},
    {"16 to 48", 3, 16, 48, 20, 17, 3, 1, 1, true, false},
};

Tensor waves(const std::vector<std::int64_t>& shape, double rate) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return (rate * at::arange(count, at::kDouble)).sin().view(shape);
}

// The operands in float64, with gradients.
struct Operands64 {
  explicit Operands64(const ConvCase& c) {
    x = waves({c.batch, c.inputs, c.height, c.width}, 0.37).requires_grad_();
    weight = waves({c.outputs, c.inputs, c.kernel, c.kernel}, 0.71).requires_grad_();
    bias = waves({c.outputs}, 1.3).mul(2).requires_grad_();
    const Tensor y = reference(c, false);
    residual = waves(y.sizes().vec(), 0.53).mul(3).requires_grad_();
    grad = waves(y.sizes().vec(), 0.29);
  }
  Tensor reference(const ConvCase& c, bool with_residual) const {
    const Tensor b = c.bias ? bias : Tensor();
    const Tensor y = at::conv2d(x, weight, b, c.stride, c.border);
    return with_residual && c.residual ? y + residual : y;
  }
  Tensor x, weight, bias, residual, grad;
};

// Largest difference in units of the expected tensor's largest value.
double error_of(const Tensor& found, const Tensor& expected) {
  const Tensor wanted = expected.detach();
  return ((found.detach().cpu().to(at::kDouble) - wanted).abs().max() /
          wanted.abs().max().clamp_min(1e-12))
      .item<double>();
}

void compare(const ConvCase& c, const at::Device& device, at::ScalarType type, double tolerance) {
  const Operands64 full(c);
  const auto leaf = [&](const Tensor& t) {
    // The reference sees the rounded operands.
    torch::NoGradGuard no_grad;
    t.copy_(t.to(type).to(at::kDouble));
    return t.detach().to(device, type).requires_grad_();
  };
  const Tensor x = leaf(full.x), weight = leaf(full.weight);
  const Tensor bias = leaf(full.bias), residual = leaf(full.residual);
  const Tensor grad = leaf(full.grad).detach();
  const Tensor expected = full.reference(c, true);
  const Tensor out = ops::convolution(x, {.weight = weight,
                                          .bias = c.bias ? bias : Tensor(),
                                          .residual = c.residual ? residual : Tensor(),
                                          .stride = c.stride,
                                          .border = c.border});
  EXPECT_LT(error_of(out, expected), tolerance) << c.name << " on " << device;
  EXPECT_EQ(out.scalar_type(), type);
  EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast)) << c.name;
  expected.backward(full.grad);
  out.backward(grad);
  EXPECT_LT(error_of(x.grad(), full.x.grad()), tolerance) << c.name << " on " << device;
  EXPECT_LT(error_of(weight.grad(), full.weight.grad()), tolerance) << c.name << " on " << device;
  if (c.bias) {
    EXPECT_LT(error_of(bias.grad(), full.bias.grad()), tolerance) << c.name << " on " << device;
  }
  if (c.residual) {
    EXPECT_LT(error_of(residual.grad(), full.residual.grad()), tolerance) << c.name;
  }
}

TEST(Convolution, AgreesWithItsDefinitionAndItsGradients) {
  allow_tf32(false);
  for (const at::Device& device : test_devices()) {
    for (const ConvCase& c : kConvCases) {
      compare(c, device, at::kFloat, 1e-5);
      if (device.is_cuda()) compare(c, device, at::kBFloat16, 2e-2);
    }
  }
}

TEST(Convolution, WithoutGradientsGivesTheSameBits) {
  for (const at::Device& device : test_devices()) {
    const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
    const Operands64 full(kConvCases[2]);
    const auto run = [&] {
      return ops::convolution(full.x.to(device, type), {.weight = full.weight.to(device, type),
                                                        .bias = full.bias.to(device, type),
                                                        .residual = full.residual.to(device, type),
                                                        .border = 1});
    };
    const Tensor with = run();
    torch::NoGradGuard no_grad;
    EXPECT_TRUE(with.equal(run())) << device;
  }
}

TEST(Convolution, TypesOfOperandsMustAgree) {
  for (const at::Device& device : test_devices()) {
    const at::TensorOptions there = at::TensorOptions(device).dtype(at::kBFloat16);
    const Tensor x = at::zeros({1, 8, 3, 3}, there), weight = at::zeros({8, 8, 3, 3}, there);
    EXPECT_NO_THROW(ops::convolution(x, {.weight = weight, .border = 1})) << device;
    const Tensor wide = weight.to(at::kFloat);
    EXPECT_THROW(ops::convolution(x, {.weight = wide, .border = 1}), c10::Error) << device;
  }
}

}  // namespace
}  // namespace slift
