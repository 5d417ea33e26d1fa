#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <stdexcept>
#include <vector>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

struct MixCase {
  std::int64_t a, b, outputs;  // channels
  bool has_kernel;
  std::int64_t batch, height, width;
};

// Sources that differ, one tile of the kernel and less, many tiles and a rest.
std::vector<MixCase> mix_cases() {
  return {{128, 128, 128, true, 1, 1, 1}, {128, 128, 128, true, 3, 59, 47},
          {40, 216, 64, true, 2, 7, 9},   {64, 64, 64, true, 2, 8, 8},
          {8, 120, 128, true, 1, 65, 3},  {32, 32, 32, true, 5, 13, 11},
          {56, 8, 128, true, 1, 1, 31},   {24, 16, 8, false, 2, 3, 5},
          {5, 2, 3, false, 1, 4, 1}};
}

// Numbers between -1 and 1 that bfloat16 holds.
Tensor bf16_waves(at::IntArrayRef shape, double rate) {
  const Tensor zeros = at::zeros(shape, at::kDouble);
  return at::arange(zeros.numel(), at::kDouble)
      .mul(rate)
      .sin()
      .view_as(zeros)
      .to(at::kBFloat16)
      .to(at::kDouble);
}

struct MixInputs {
  Tensor a, b, weight, grad;  // `grad` is that of the result

  explicit MixInputs(const MixCase& c)
      : a(bf16_waves({c.batch, c.a, c.height, c.width}, 0.71)),
        b(bf16_waves({c.batch, c.b, c.height, c.width}, 0.37)),
        weight(bf16_waves({c.outputs, c.a + c.b, 1, 1}, 0.53)),
        grad(bf16_waves({c.batch, c.outputs, c.height, c.width}, 0.29)) {}
};

Tensor definition(const Tensor& weight, const Tensor& x) { return at::conv2d(x, weight); }

// `x` as a leaf that gathers a gradient.
Tensor as_leaf(const Tensor& x, const at::Device& device, at::ScalarType type) {
  return x.to(device, type).clone(x.suggest_memory_format()).requires_grad_();
}

Tensor as_field(const Tensor& x, const at::Device& device, at::ScalarType type) {
  return as_leaf(x.contiguous(at::MemoryFormat::ChannelsLast), device, type);
}

void expect_close(const Tensor& found, const Tensor& expected, at::ScalarType type) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const double off = (found.to(at::kCPU, at::kDouble) - expected).norm().item<double>();
  EXPECT_LE(off, expected.norm().item<double>() * (type == at::kBFloat16 ? 1e-2 : 1e-5));
}

// Calls body(device, type): bfloat16 on the CPU would be LibTorch's products alone.
template <typename Body>
void for_each_kind(const Body& body) {
  for (const at::Device& device : test_devices()) {
    body(device, at::kFloat);
    if (device.is_cuda()) body(device, at::kBFloat16);
  }
}

TEST(Mix, WeighsTwoFieldsSideBySide) {
  for_each_kind([](const at::Device& device, at::ScalarType type) {
    for (const MixCase& c : mix_cases()) {
      SCOPED_TRACE(::testing::Message() << device << " " << type << " " << c.a << " + " << c.b);
      const MixInputs in(c);
      at::NoGradGuard no_grad;
      const Tensor out = ops::mix(
          {as_field(in.a, device, type), as_field(in.b, device, type), in.weight.to(device, type)});
      EXPECT_EQ(out.scalar_type(), type);
      EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
      const Tensor expected = definition(in.weight, at::cat({in.a, in.b}, 1));
      ASSERT_EQ(out.sizes(), expected.sizes());
      // The kernel rounds a result once, two products also the sum of the first.
      const double rounding = type == at::kBFloat16 ? 1.0 / 256 : 1e-6;
      const double slack = (c.has_kernel ? 1e-6 : rounding) * static_cast<double>(c.a + c.b);
      const Tensor off = (out.to(at::kCPU, at::kDouble) - expected).abs();
      EXPECT_LE((off - expected.abs() * rounding).max().item<double>(), slack);
    }
  });
}

TEST(Mix, GivesGradientsToBothFieldsAndTheWeight) {
  for_each_kind([](const at::Device& device, at::ScalarType type) {
    for (const MixCase& c : mix_cases()) {
      SCOPED_TRACE(::testing::Message() << device << " " << type << " " << c.a << " + " << c.b);
      const MixInputs in(c);
      const Tensor a = as_field(in.a, device, type), b = as_field(in.b, device, type);
      const Tensor weight = as_leaf(in.weight, device, type);
      ops::mix({a, b, weight}).backward(in.grad.to(device, type));
      const Tensor wide_a = as_leaf(in.a, at::kCPU, at::kDouble);
      const Tensor wide_b = as_leaf(in.b, at::kCPU, at::kDouble);
      const Tensor wide_weight = as_leaf(in.weight, at::kCPU, at::kDouble);
      definition(wide_weight, at::cat({wide_a, wide_b}, 1)).backward(in.grad);
      expect_close(a.grad(), wide_a.grad(), type);
      expect_close(b.grad(), wide_b.grad(), type);
      expect_close(weight.grad(), wide_weight.grad(), type);
    }
  });
}

TEST(Mix, GivesTheGradientOfOneInputAlone) {
  const MixCase c = {64, 64, 32, true, 1, 5, 3};
  for_each_kind([&](const at::Device& device, at::ScalarType type) {
    const MixInputs in(c);
    const Tensor grads[] = {
        definition(in.weight.narrow(1, 0, c.a).transpose(0, 1), in.grad),
        definition(in.weight.narrow(1, c.a, c.b).transpose(0, 1), in.grad),
        at::einsum("bnhw,bkhw->nk", {in.grad, at::cat({in.a, in.b}, 1)}).view_as(in.weight),
    };
    for (std::size_t i = 0; i < 3; ++i) {
      Tensor inputs[] = {in.a.to(device, type), in.b.to(device, type), in.weight.to(device, type)};
      inputs[i].requires_grad_();
      ops::mix({inputs[0], inputs[1], inputs[2]}).backward(in.grad.to(device, type));
      ASSERT_TRUE(inputs[i].grad().defined()) << i;
      expect_close(inputs[i].grad(), grads[i], type);
    }
  });
}

TEST(Mix, TakesOneFieldAndAnyLayout) {
  const MixCase c = {64, 64, 32, true, 2, 3, 5};
  for_each_kind([&](const at::Device& device, at::ScalarType type) {
    const MixInputs in(c);
    const Tensor a = in.a.to(device, type), weight = in.weight.to(device, type);  // row-major
    const Tensor two = ops::mix({a, in.b.to(device, type), weight});
    expect_close(two, definition(in.weight, at::cat({in.a, in.b}, 1)), type);
    const Tensor of_a = in.weight.narrow(1, 0, c.a);
    const Tensor one = ops::mix({a, {}, weight.narrow(1, 0, c.a)});
    EXPECT_TRUE(one.is_contiguous(at::MemoryFormat::ChannelsLast));
    expect_close(one, definition(of_a, in.a), type);
  });
}

TEST(Mix, RefusesWhatDoesNotFit) {
  for_each_kind([](const at::Device& device, at::ScalarType type) {
    const MixInputs in({64, 64, 32, true, 2, 3, 5});
    const Tensor a = in.a.to(device, type), b = in.b.to(device, type);
    const Tensor weight = in.weight.to(device, type);
    EXPECT_THROW(ops::mix({a, {}, weight}), c10::Error);
    EXPECT_THROW(ops::mix({a, b.narrow(2, 0, 2), weight}), c10::Error);
    EXPECT_THROW(ops::mix({a.narrow(1, 0, 63), b, weight}), c10::Error);
    EXPECT_THROW(ops::mix({a, b, weight.to(at::kDouble)}), c10::Error);
  });
}

#ifdef SLIFT_WITH_CUDA
TEST(Mix, KernelSaysWhatItTakes) {
  for (const MixCase& c : mix_cases()) {
    EXPECT_EQ(kernels::cuda::can_mix(c.a, c.b, c.outputs), c.has_kernel) << c.a << " + " << c.b;
  }
  EXPECT_FALSE(kernels::cuda::can_mix(256, 256, 256));
  EXPECT_FALSE(kernels::cuda::can_mix(60, 68, 64));
  EXPECT_FALSE(kernels::cuda::can_mix(64, 64, 96));
  const kernels::MixArgs args{1, 24, 16, 8, nullptr, nullptr, nullptr, nullptr};
  EXPECT_THROW(kernels::cuda::mix(args, nullptr), std::invalid_argument);
}
#endif

}  // namespace
}  // namespace slift
