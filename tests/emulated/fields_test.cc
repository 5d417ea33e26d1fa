// Kernels that move fields: borders, four fields as one, both ends of a rollout's step.
#include <fmt/format.h>

#include "testing.h"

namespace slift {
namespace {

using kernels::BFloat16;
using kernels::FieldShape;

template <typename T>
class EmulatedFields : public testing::Test {};
using FieldTypes = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(EmulatedFields, FieldTypes);

constexpr std::int64_t kBatch = 2;
constexpr FieldShape kFields[] = {{1, 1, 8}, {3, 5, 7}, {4, 2, 16}, {1, 9, 24}, {6, 3, 72}};

std::string describe(const FieldShape& s) {
  return fmt::format("{} x {} x {}", s.height, s.width, s.channels);
}

TYPED_TEST(EmulatedFields, PeriodicBorders) {
  for (const FieldShape& s : kFields) {
    const std::int64_t inside = kBatch * s.height * s.width * s.channels;
    const std::int64_t around = kBatch * (s.height + 2) * (s.width + 2) * s.channels;
    const Numbers x = drawn(inside, 0), grad = drawn(around, 1);
    Numbers want_out = unwritten<float>(around), want_grad = unwritten<float>(inside);
    for (std::int64_t row = 0; row < kBatch * (s.height + 2); ++row) {
      kernels::cpu::pad_circular(s, row, x.data(), want_out.data());
    }
    for (std::int64_t row = 0; row < kBatch * s.height; ++row) {
      kernels::cpu::pad_circular_backward(s, row, grad.data(), want_grad.data());
    }
    const auto given = as<TypeParam>(x), arriving = as<TypeParam>(grad);
    auto out = unwritten<TypeParam>(around), back = unwritten<TypeParam>(inside);
    kernels::cuda::pad_circular(s, kBatch * (s.height + 2), given.data(), out.data(), nullptr);
    kernels::cuda::pad_circular_backward(s, kBatch * s.height, arriving.data(), back.data(),
                                         nullptr);
    expect_close(out, want_out, 0, describe(s));
    expect_close(back, want_grad, kBound<TypeParam>, describe(s));
  }
}

TYPED_TEST(EmulatedFields, FourFieldsAsOneAndBack) {
  for (const FieldShape& s : kFields) {
    const std::int64_t c = s.channels;
    const std::int64_t four = kBatch * (s.height + 1) * (s.width + 1) * 4 * c;
    const std::int64_t one = kBatch * 4 * s.height * s.width * c;
    const Numbers y = drawn(four, 0), grad = drawn(one, 1);
    Numbers want = unwritten<float>(one), want_back(static_cast<std::size_t>(four), 0);
    for (std::int64_t e = 0; e < one; ++e) {
      const std::int64_t k = e % c, place = e / c, column = place % (2 * s.width);
      const std::int64_t row = place / (2 * s.width) % (2 * s.height);
      const std::int64_t sample = place / (4 * s.width * s.height), i = row % 2, j = column % 2;
      const auto from = static_cast<std::size_t>(
          (((sample * (s.height + 1) + row / 2 + i) * (s.width + 1) + column / 2 + j) * 4 + 2 * i +
           j) *
              c +
          k);
      want[static_cast<std::size_t>(e)] = y[from];
      want_back[from] = grad[static_cast<std::size_t>(e)];
    }
    const auto given = as<TypeParam>(y), arriving = as<TypeParam>(grad);
    auto out = unwritten<TypeParam>(one), back = unwritten<TypeParam>(four);
    kernels::cuda::interleave(s, kBatch, given.data(), out.data(), nullptr);
    kernels::cuda::interleave_backward(s, kBatch, arriving.data(), back.data(), nullptr);
    expect_close(out, want, 0, describe(s));
    expect_close(back, want_back, 0, describe(s));
  }
}

constexpr kernels::WindowShape kWindows[] = {{2, 3, 3, 5, 4}, {1, 1, 1, 1, 1}, {3, 7, 2, 2, 9}};

TYPED_TEST(EmulatedFields, AStateIsPushedIntoTheWindow) {
  for (const kernels::WindowShape& s : kWindows) {
    const Numbers window = drawn(s.batch * s.length * s.state_size(), 0);
    const Numbers net = drawn(s.batch * s.state_size(), 1), scale = drawn(s.channels, 2);
    const Numbers offset = drawn(s.channels, 3);
    for (const bool residual : {false, true}) {
      Numbers got = window, want = window;
      const auto output = as<TypeParam>(net);
      kernels::cuda::push_state<TypeParam>(
          {s, output.data(), s.state_size(), s.cells(), 1, residual ? nullptr : offset.data(),
           scale.data(), got.data()},
          nullptr);
      const auto size = static_cast<std::size_t>(s.state_size());
      for (std::size_t b = 0; b < static_cast<std::size_t>(s.batch); ++b) {
        float* const first = want.data() + b * static_cast<std::size_t>(s.length) * size;
        float* const last = first + (static_cast<std::size_t>(s.length) - 1) * size;
        const Numbers newest(last, last + size);
        std::copy(first + size, last + size, first);
        for (std::size_t i = 0; i < size; ++i) {
          const std::size_t channel = i / static_cast<std::size_t>(s.cells());
          last[i] = (residual ? newest[i] : offset[channel]) + scale[channel] * net[b * size + i];
        }
      }
      EXPECT_EQ(got, want);
    }
  }
}

TEST(EmulatedWindow, IsPackedForTheFirstConvolution) {
  for (const kernels::WindowShape& s : kWindows) {
    for (const bool border : {false, true}) {
      const std::int64_t packed = (s.planes() + 7) / 8 * 8, more = border ? 2 : 0;
      const Numbers window = drawn(s.batch * s.planes() * s.cells(), 0);
      const Numbers mean = drawn(s.channels, 1), std = drawn(s.channels, 2, 4);
      const std::int64_t height = s.height + more, width = s.width + more;
      auto out = unwritten<BFloat16>(s.batch * height * width * packed);
      kernels::cuda::pack_window(
          {s, window.data(), mean.data(), std.data(), border, packed, out.data()}, nullptr);
      Numbers want;
      for (std::int64_t e = 0; e < s.batch * height * width * packed; ++e) {
        const std::int64_t k = e % packed, x = e / packed % width, y = e / packed / width % height;
        const std::int64_t b = e / packed / width / height, c = k % s.channels;
        const std::int64_t row = (y + s.height - more / 2) % s.height;
        const std::int64_t column = (x + s.width - more / 2) % s.width;
        const auto from =
            static_cast<std::size_t>(((b * s.planes() + k) * s.height + row) * s.width + column);
        const auto channel = static_cast<std::size_t>(c);
        want.push_back(k < s.planes() ? (window[from] - mean[channel]) / std[channel] : 0);
      }
      expect_close(out, want, 4e-3, border ? "border" : "none");
    }
  }
}

}  // namespace
}  // namespace slift
