// AdamW and the norm of all gradients, against the CPU's kernels.
#include "testing.h"

namespace slift {
namespace {

// More than a launch takes, of one number, of odd sizes and of more than a block; some begin where
// 16 bytes do not, some have rounded gradients and copies.
struct EmulatedParameters {
  EmulatedParameters() {
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t size = i == 3 ? 0 : i == 5 ? 9000 : 1 + i * 7 % 40;
      sizes.push_back(size);
      offsets.push_back(total + (i % 3 == 0 ? 0 : 1));
      total = (offsets.back() + size + 15) / 16 * 16;
    }
    const auto count = static_cast<std::int64_t>(total);
    grad = drawn(count, 0);
    rounded = as<kernels::BFloat16>(grad);
    param = drawn(count, 1);
    first = drawn(count, 2);
    second = drawn(count, 3);
    for (float& x : second) x = x * x;
    ema = drawn(count, 4);
    copy = unwritten<kernels::BFloat16>(count);
  }

  bool is_rounded(std::size_t i) const { return i % 4 == 1; }
  kernels::AdamWTensor tensor(std::size_t i) {
    const std::size_t at = offsets[i];
    const void* const values = is_rounded(i) ? static_cast<const void*>(&rounded[at]) : &grad[at];
    return {{values, static_cast<std::int64_t>(sizes[i]), is_rounded(i)},
            &param[at],
            &first[at],
            &second[at],
            &ema[at],
            is_rounded(i) ? &copy[at] : nullptr};
  }

  static constexpr std::size_t kCount = 61;
  std::vector<std::size_t> sizes, offsets;
  std::size_t total = 0;
  Numbers grad, param, first, second, ema;
  std::vector<kernels::BFloat16> rounded, copy;
};

TEST(EmulatedAdamW, AgreesWithTheCpu) {
  const kernels::AdamWStep step{0.01f, 0.1f, 0.001f, 1e-8f, 0.1f, 0.5f, 0.3f, 0.01f, /*clip=*/2.0};
  EmulatedParameters got, want;
  std::vector<kernels::Gradient> grads;
  std::vector<kernels::AdamWTensor> tensors;
  double squares = 0;
  for (std::size_t i = 0; i < EmulatedParameters::kCount; ++i) {
    tensors.push_back(got.tensor(i));
    grads.push_back(tensors.back().grad);
    squares += kernels::cpu::sum_of_squares(&want.grad[want.offsets[i]], grads.back().size);
  }
  double norm = NAN;
  std::vector<double> partials(static_cast<std::size_t>(kernels::cuda::norm_partials(grads)), NAN);
  kernels::cuda::global_norm(grads, partials.data(), &norm, nullptr);
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-12 * norm);

  kernels::cuda::adamw(&step, &norm, tensors, nullptr);
  for (std::size_t i = 0; i < EmulatedParameters::kCount; ++i) {
    const kernels::AdamWTensor t = want.tensor(i);
    const std::size_t at = want.offsets[i];
    kernels::cpu::adamw(step, norm, t.grad.size, &want.grad[at], t.param, t.first, t.second, t.ema);
    for (std::size_t k = at; k < at + want.sizes[i]; ++k) {
      if (t.copy != nullptr) {
        EXPECT_NEAR(value_of(got.copy[k]), want.param[k], std::abs(want.param[k]) / 256) << i;
      } else {
        EXPECT_TRUE(std::isnan(value_of(got.copy[k]))) << i;
      }
    }
  }
  // All that belongs to no parameter stays what it is.
  EXPECT_EQ(got.param, want.param);
  EXPECT_EQ(got.first, want.first);
  EXPECT_EQ(got.second, want.second);
  EXPECT_EQ(got.ema, want.ema);
}

}  // namespace
}  // namespace slift
