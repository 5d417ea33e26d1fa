#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

// Numbers between -1 and 1 that do not repeat, others for another rate.
Tensor sines(const std::vector<std::int64_t>& shape, double rate) {
  return at::ones(shape, at::kFloat).flatten().cumsum(0).mul(rate).sin().view(shape);
}

// Per channel, [channels, 1...] for states of this rank.
Tensor scales_of(std::int64_t channels, std::size_t rank, double rate) {
  std::vector<std::int64_t> shape(rank, 1);
  shape[0] = channels;
  return 1.5 + sines(shape, rate);
}

struct WindowCase {
  std::int64_t batch, length, channels, height, width;
};

constexpr WindowCase kWindowCases[] = {
    {2, 3, 3, 5, 7}, {1, 1, 1, 1, 1}, {3, 1, 3, 4, 6},   {2, 3, 1, 6, 1},
    {2, 6, 2, 1, 3}, {2, 5, 3, 3, 3}, {1, 2, 9, 16, 24},
};

class WindowOnDevice : public testing::TestWithParam<at::Device> {
 protected:
  torch::NoGradGuard no_grad_;
};

// The definition, element by element.
TEST_P(WindowOnDevice, IsPackedAsTheNetworksInput) {
  for (const auto& [batch, length, channels, height, width] : kWindowCases) {
    const Tensor window = 3 * sines({batch, length, channels, height, width}, 0.7);
    const Tensor mean = scales_of(channels, 3, 0.3), std = scales_of(channels, 3, 0.9);
    const std::int64_t planes = length * channels, padded = (planes + 7) / 8 * 8;
    const auto w = window.accessor<float, 5>();
    const auto m = mean.accessor<float, 3>(), s = std.accessor<float, 3>();
    for (const std::int64_t packed : {planes, padded, padded + 8}) {
      for (const bool border : {false, true}) {
        const std::int64_t around = border ? 1 : 0;
        const Tensor wanted = at::zeros({batch, packed, height + 2 * around, width + 2 * around});
        auto to = wanted.accessor<float, 4>();
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t k = 0; k < planes; ++k) {
            const std::int64_t i = k / channels, c = k % channels;
            for (std::int64_t y = 0; y < wanted.size(2); ++y) {
              for (std::int64_t x = 0; x < wanted.size(3); ++x) {
                to[b][k][y][x] =
                    (w[b][i][c][(y - around + height) % height][(x - around + width) % width] -
                     m[c][0][0]) /
                    s[c][0][0];
              }
            }
          }
        }
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
          const Tensor got =
              ops::pack_window(window.to(GetParam()), mean.to(GetParam()), std.to(GetParam()),
                               {.type = type, .channels = packed, .border = border});
          EXPECT_EQ(got.scalar_type(), type);
          EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
          EXPECT_TRUE(at::equal(got.cpu(), wanted.to(type)))
              << window.sizes() << " packed " << packed << " border " << border << " " << type;
        }
      }
    }
  }
}

// The window after a step by its definition; `net` in any type.
Tensor moved_on(const Tensor& window, const Tensor& net, const Tensor& offset,
                const Tensor& scale) {
  const Tensor next = scale * net.to(at::kFloat);
  const Tensor base = offset.defined() ? offset : window.select(1, window.size(1) - 1);
  return at::cat({window.slice(1, 1), (base + next).unsqueeze(1)}, 1);
}

TEST_P(WindowOnDevice, MovesOnInPlace) {
  for (const auto& [batch, length, channels, height, width] : kWindowCases) {
    const Tensor window = 3 * sines({batch, length, channels, height, width}, 0.7);
    const Tensor scale = scales_of(channels, 3, 0.4);
    for (const Tensor& offset : {Tensor(), scales_of(channels, 3, 0.3)}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const Tensor rows = sines({batch, channels, height, width}, 1.1).to(GetParam(), type);
        const auto packed = [&](std::int64_t all_channels, std::int64_t columns) {
          return sines({batch, all_channels, height, columns}, 1.3)
              .to(GetParam(), type)
              .contiguous(at::MemoryFormat::ChannelsLast);
        };
        const std::pair<const char*, Tensor> layouts[] = {
            {"row-major", rows},
            {"channels-last", rows.contiguous(at::MemoryFormat::ChannelsLast)},
            {"first of more channels", packed(channels + 5, width).narrow(1, 0, channels)},
            {"left half", packed(channels, 2 * width).narrow(3, 0, width)},
        };
        for (const auto& [name, net] : layouts) {
          const Tensor got = window.to(GetParam(), /*non_blocking=*/false, /*copy=*/true);
          const void* const place = got.data_ptr();
          ops::push_state(got, net, offset.defined() ? offset.to(GetParam()) : offset,
                          scale.to(GetParam()));
          EXPECT_EQ(got.data_ptr(), place);
          EXPECT_TRUE(at::equal(got.cpu(), moved_on(window, net.cpu(), offset, scale)))
              << name << " " << window.sizes() << " " << type << " offset " << offset.defined();
        }
      }
    }
  }
}

TEST_P(WindowOnDevice, OfVectorsMovesOn) {
  for (const std::int64_t length : {1, 2, 5, 9}) {
    const Tensor window = sines({70, length, 7}, 0.7), net = sines({70, 7}, 1.1);
    const Tensor scale = scales_of(7, 1, 0.4);
    for (const Tensor& offset : {Tensor(), scales_of(7, 1, 0.3)}) {
      const Tensor got = window.to(GetParam(), /*non_blocking=*/false, /*copy=*/true);
      ops::push_state(got, net.to(GetParam()), offset.defined() ? offset.to(GetParam()) : offset,
                      scale.to(GetParam()));
      EXPECT_TRUE(at::equal(got.cpu(), moved_on(window, net, offset, scale))) << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WindowOnDevice, testing::ValuesIn(test_devices()), DeviceName());

TEST(Window, WhatDoesNotFitIsABugOfTheCaller) {
  const Tensor window = at::zeros({2, 3, 4, 5, 6}), net = at::zeros({2, 4, 5, 6});
  const Tensor scale = at::ones({4, 1, 1});
  const ops::InputLayout layout{at::kFloat, 12, false};
  EXPECT_THROW(ops::pack_window(window, scale, scale, layout), c10::Error) << "gradients";
  EXPECT_THROW(ops::push_state(window, net, {}, scale), c10::Error) << "gradients";
  torch::NoGradGuard no_grad;
  EXPECT_NO_THROW(ops::pack_window(window, scale, scale, layout));
  EXPECT_THROW(ops::pack_window(window, scale, scale, {at::kFloat, 11, false}), c10::Error);
  EXPECT_THROW(ops::pack_window(window, at::ones({1, 1, 1}), scale, layout), c10::Error);
  EXPECT_THROW(ops::pack_window(window, scale, at::ones({4}), layout), c10::Error);
  EXPECT_THROW(ops::pack_window(window.to(at::kDouble), scale, scale, layout), c10::Error);
  EXPECT_NO_THROW(ops::push_state(window, net, scale, scale));
  EXPECT_THROW(ops::push_state(window, net.narrow(1, 0, 1), {}, scale), c10::Error);
  EXPECT_THROW(ops::push_state(window, net, at::ones({4, 5, 6}), scale), c10::Error);
  EXPECT_THROW(ops::push_state(window, net, {}, at::ones({4, 1, 1}, at::kDouble)), c10::Error);
  EXPECT_THROW(ops::push_state(window.transpose(3, 4), net.transpose(2, 3), {}, scale), c10::Error);
}

}  // namespace
}  // namespace slift
