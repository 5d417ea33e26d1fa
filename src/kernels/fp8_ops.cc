#include <cmath>
#include <vector>

#include "kernels/ops.h"

namespace slift::ops {
namespace {

constexpr float kLargestFp8 = 448;

// The numbers whose bits are 0, 1, ... 126, in rising order; those of negative ones have 128 more.
std::vector<float> positive_fp8_numbers() {
  std::vector<float> numbers;
  for (int bits = 0; bits < 127; ++bits) {
    const int exponent = bits / 8, mantissa = bits % 8;
    numbers.push_back(exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10));
  }
  return numbers;
}

// Entry b: the largest number that is rounded to the bits b or less. Halfway between two it is the
// even bits that are taken.
std::vector<float> upper_ends() {
  const std::vector<float> numbers = positive_fp8_numbers();
  std::vector<float> ends;
  for (std::size_t b = 0; b + 1 < numbers.size(); ++b) {
    const float middle = (numbers[b] + numbers[b + 1]) / 2;
    ends.push_back(b % 2 == 0 ? middle : std::nextafter(middle, 0.0f));
  }
  return ends;
}

}  // namespace

double fp8_gain(double largest) {
  return largest > 0 ? std::exp2(std::floor(std::log2(kLargestFp8 / 2 / largest))) : 1;
}

Tensor to_fp8(const Tensor& x, double gain) {
  const Tensor scaled = x.detach().to(at::kFloat).contiguous() * gain;
  const Tensor ends = at::tensor(upper_ends(), at::kFloat).to(x.device());
  const Tensor size = at::bucketize(scaled.abs(), ends);
  return (size + 128 * at::signbit(scaled)).to(at::kByte).contiguous(x.suggest_memory_format());
}

Tensor weight_to_fp8(const Tensor& weight, double gain) {
  constexpr double kPassedOn = 0.7;  // the best of 0, 0.4, 0.7 and 1, for waves and for videos
  const Tensor cells = weight.detach().to(at::kFloat).flatten(2);
  Tensor error = at::zeros_like(cells.select(2, 0));
  std::vector<Tensor> bits;
  for (std::int64_t i = 0; i < cells.size(2); ++i) {
    const Tensor wanted = cells.select(2, i) + kPassedOn * error;
    bits.push_back(to_fp8(wanted, gain));
    error = wanted - from_fp8(bits.back(), gain);
  }
  return at::stack(bits, 2).view(weight.sizes()).contiguous(weight.suggest_memory_format());
}

Tensor from_fp8(const Tensor& bits, double gain) {
  const Tensor numbers = at::tensor(positive_fp8_numbers(), at::kFloat).to(bits.device());
  const Tensor all = at::cat({numbers, at::full({1}, NAN, numbers.options())});
  const Tensor values =
      at::cat({all, -all}).index_select(0, bits.contiguous().flatten().to(at::kInt));
  return values.view(bits.sizes()).div(gain).contiguous(bits.suggest_memory_format());
}

}  // namespace slift::ops
