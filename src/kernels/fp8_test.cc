#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

constexpr auto kPackedFields = at::MemoryFormat::ChannelsLast;

Tensor fp8_noise(const std::vector<std::int64_t>& shape, std::uint64_t index) {
  Tensor values = at::empty(shape, at::kFloat);
  fill_normal({9, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

at::ScalarType field_type(const at::Device& device) {
  return device.is_cuda() ? at::kBFloat16 : at::kFloat;
}

TEST(Fp8, BitsHaveTheValuesOfE4m3) {
  for (const at::Device& device : test_devices()) {
    const Tensor bits =
        at::tensor({0x00, 0x01, 0x07, 0x08, 0x38, 0x3d, 0x7e, 0xb8, 0xfe}, at::kByte);
    const Tensor values =
        at::tensor({0.0, 0x1p-9, 0x7p-9, 0x1p-6, 1.0, 1.625, 448.0, -1.0, -448.0});
    EXPECT_TRUE(at::equal(ops::from_fp8(bits.to(device), 1).cpu(), values.to(at::kFloat)));
    EXPECT_TRUE(at::equal(ops::from_fp8(bits.to(device), 4).cpu(), values.to(at::kFloat) / 4));
    // All but the two that are no numbers come back.
    const Tensor all = at::cat({at::arange(0, 127), at::arange(128, 255)}).to(device, at::kByte);
    EXPECT_TRUE(at::equal(ops::to_fp8(ops::from_fp8(all, 32), 32), all)) << device;
    EXPECT_TRUE(ops::from_fp8(at::full({1}, 127, all.options()), 1).isnan().item<bool>());
    EXPECT_TRUE(ops::from_fp8(at::full({1}, 255, all.options()), 1).isnan().item<bool>());
  }
}

TEST(Fp8, RoundsToTheNearestAndHalfwayToTheEven) {
  const std::vector<double> given = {1.0624, 1.0625,  1.0626,  1.1874,  1.1875,  17.0,
                                     19.0,   -1.0625, -1.1875, 0x1p-10, 0x3p-10, 0x2.8p-10,
                                     463.0,  1e30,    -1e30,   0x1.fp-7};
  const std::vector<double> rounded = {1.0,   1.0, 1.125,   1.125,   1.25,  16.0,  20.0,   -1.0,
                                       -1.25, 0.0, 0x4p-10, 0x2p-10, 448.0, 448.0, -448.0, 0x1p-6};
  for (const at::Device& device : test_devices()) {
    for (const double gain : {1.0, 0.25}) {
      const Tensor x = at::tensor(given, at::kFloat).to(device) / gain;
      const Tensor got = ops::from_fp8(ops::to_fp8(x, gain), gain).cpu();
      EXPECT_TRUE(at::equal(got * gain, at::tensor(rounded, at::kFloat))) << got << device;
    }
  }
}

// Of a smooth field a convolution sees the sums over the cells of its kernel.
TEST(Fp8, RoundedWeightsKeepTheirSumsOverCells) {
  for (const at::Device& device : test_devices()) {
    const Tensor weight = fp8_noise({48, 32, 3, 3}, 3).contiguous(kPackedFields).to(device);
    const double gain = 16;
    const Tensor bits = ops::weight_to_fp8(weight, gain);
    EXPECT_EQ(bits.sizes(), weight.sizes());
    EXPECT_TRUE(bits.is_contiguous(kPackedFields));
    const auto errors = [&](const Tensor& rounded) {
      const Tensor off = ops::from_fp8(rounded, gain) - weight;
      return std::pair{off.std().item<double>(), off.sum({2, 3}).std().item<double>()};
    };
    const auto [of_cells, of_sums] = errors(bits);
    const auto [plain_of_cells, plain_of_sums] = errors(ops::to_fp8(weight, gain));
    EXPECT_NEAR(plain_of_sums, 3 * plain_of_cells, 0.1 * plain_of_sums) << "independent of others";
    EXPECT_LT(of_sums, 0.5 * plain_of_sums) << device;
    EXPECT_LT(of_cells, 1.3 * plain_of_cells) << device;
    // Numbers of e4m3 stay what they are.
    const Tensor exact = ops::from_fp8(bits, gain);
    EXPECT_TRUE(at::equal(ops::from_fp8(ops::weight_to_fp8(exact, gain), gain), exact)) << device;
  }
}

TEST(Fp8, KeepsTheLayout) {
  const Tensor x = fp8_noise({2, 16, 3, 5}, 0).contiguous(kPackedFields);
  const Tensor bits = ops::to_fp8(x, 8), back = ops::from_fp8(bits, 8);
  EXPECT_TRUE(bits.is_contiguous(kPackedFields) && back.is_contiguous(kPackedFields));
  // 3 bits of mantissa, and the spacing below 2^-6.
  EXPECT_TRUE(at::allclose(back, x, 1.0 / 16, 0x1p-10 / 8));
  EXPECT_TRUE(at::equal(ops::to_fp8(x.contiguous(), 8), bits));
}

TEST(Fp8, GainIsAPowerOfTwoThatLeavesHalfTheRangeFree) {
  EXPECT_EQ(ops::fp8_gain(1), 128);
  EXPECT_EQ(ops::fp8_gain(1.75), 128);
  EXPECT_EQ(ops::fp8_gain(1.76), 64);
  EXPECT_EQ(ops::fp8_gain(0), 1);
  for (const double largest : {3e-20, 0.2, 7.0, 224.0, 225.0, 1e10}) {
    const double gain = ops::fp8_gain(largest);
    EXPECT_GT(gain * largest, 112) << largest;
    EXPECT_LE(gain * largest, 224) << largest;
    EXPECT_EQ(std::exp2(std::round(std::log2(gain))), gain);
  }
}

TEST(Fp8, NormIsTheRoundedOne) {
  torch::NoGradGuard no_grad;
  for (const at::Device& device : test_devices()) {
    const auto field = [&](std::int64_t channels, std::uint64_t index) {
      return (fp8_noise({2, channels, 5, 7}, index) + 0.5).to(device, field_type(device));
    };
    for (const bool border : {false, true}) {
      const ops::NormArgs args{.f = kernels::Activation::kGelu,
                               .groups = 8,
                               .a = field(16, 0),
                               .b = field(32, 1),
                               .scale = (1 + 0.3 * fp8_noise({48}, 2)).to(device),
                               .shift = fp8_noise({48}, 3).to(device),
                               .film = fp8_noise({2, 96}, 4).to(device, field_type(device)),
                               .border = border};
      const Tensor wanted = ops::norm_activation(args).out.cpu().to(at::kFloat);
      for (const double gain : {16.0, 512.0}) {  // the second cuts off
        const Tensor bits = ops::norm_activation_fp8(args, gain);
        EXPECT_EQ(bits.scalar_type(), at::kByte);
        EXPECT_TRUE(bits.is_contiguous(kPackedFields));
        ASSERT_EQ(bits.sizes(), wanted.sizes());
        const Tensor cut = wanted.clamp(-448 / gain, 448 / gain);
        // Half a unit of the last bit, and on CUDA the rounding of `wanted` to bfloat16.
        EXPECT_TRUE(at::allclose(ops::from_fp8(bits.cpu(), gain), cut, 0.068, 0x1p-9 / gain))
            << device << " border " << border << " gain " << gain;
      }
    }
  }
}

struct Fp8ConvCase {
  const char* name;
  std::int64_t batch, inputs, outputs, height, width, border;
  bool bias, residual;
};

constexpr Fp8ConvCase kFp8ConvCases[] = {
    {"plain", 2, 16, 32, 7, 5, 1, false, false},
    {"bias", 2, 32, 16, 8, 6, 1, true, false},
    {"residual", 3, 16, 16, 5, 9, 1, false, true},
    {"bias and residual", 2, 48, 32, 7, 5, 1, true, true},
    {"no border", 2, 16, 32, 9, 7, 0, true, true},
    {"many channels", 2, 256, 128, 16, 16, 1, true, true},
};

// Against float64 of the very numbers that the bits stand for.
TEST(Fp8, ConvolutionAgreesWithItsDefinition) {
  torch::NoGradGuard no_grad;
  constexpr double kGainX = 32, kGainW = 512;
  for (const at::Device& device : test_devices()) {
    const at::ScalarType type = field_type(device);
    for (const Fp8ConvCase& c : kFp8ConvCases) {
      const Tensor x = ops::to_fp8(fp8_noise({c.batch, c.inputs, c.height, c.width}, 0), kGainX);
      const Tensor weight = ops::to_fp8(0.1 * fp8_noise({c.outputs, c.inputs, 3, 3}, 1), kGainW);
      const Tensor bias = fp8_noise({c.outputs}, 2).to(type);
      const std::int64_t cut = 2 - 2 * c.border;
      const Tensor residual =
          (3 * fp8_noise({c.batch, c.outputs, c.height - cut, c.width - cut}, 3)).to(type);
      Tensor wanted = at::conv2d(ops::from_fp8(x, kGainX).to(at::kDouble),
                                 ops::from_fp8(weight, kGainW).to(at::kDouble), {}, 1, c.border);
      if (c.bias) wanted = wanted + bias.to(at::kDouble).view({1, -1, 1, 1});
      if (c.residual) wanted = wanted + residual.to(at::kDouble);
      const auto run = [&] {
        return ops::convolution_fp8(x.to(device),
                                    {.weight = weight.to(device),
                                     .scale = at::full({1}, 1 / (kGainX * kGainW)).to(device),
                                     .bias = c.bias ? bias.to(device) : Tensor(),
                                     .residual = c.residual ? residual.to(device) : Tensor(),
                                     .border = c.border});
      };
      const Tensor got = run();
      EXPECT_EQ(got.scalar_type(), type);
      EXPECT_TRUE(got.is_contiguous(kPackedFields)) << c.name;
      ASSERT_EQ(got.sizes(), wanted.sizes()) << c.name;
      const double error = (got.cpu().to(at::kDouble) - wanted).abs().max().item<double>();
      EXPECT_LT(error / wanted.abs().max().item<double>(), device.is_cuda() ? 2e-2 : 1e-5)
          << c.name << " on " << device;
      EXPECT_TRUE(at::equal(run(), got)) << c.name << " on " << device;
    }
  }
}

TEST(Fp8, WhatCannotBeIsABugOfTheCaller) {
  const Tensor x = at::zeros({1, 16, 4, 4}, at::kByte),
               weight = at::zeros({16, 16, 3, 3}, at::kByte);
  const Tensor scale = at::ones({1});
  EXPECT_THROW(ops::convolution_fp8(x, {.weight = weight, .scale = scale}), c10::Error);
  torch::NoGradGuard no_grad;
  EXPECT_NO_THROW(ops::convolution_fp8(x, {.weight = weight, .scale = scale}));
  EXPECT_THROW(ops::convolution_fp8(x.to(at::kFloat), {.weight = weight, .scale = scale}),
               c10::Error);
  EXPECT_THROW(ops::convolution_fp8(x, {.weight = weight.narrow(0, 0, 8), .scale = scale}),
               c10::Error);
  EXPECT_THROW(ops::convolution_fp8(
                   x, {.weight = weight, .scale = scale, .bias = at::zeros({16}, at::kDouble)}),
               c10::Error);
}

}  // namespace
}  // namespace slift
