// Arrays for the tests of emulated kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/kernels.h"

namespace slift {

using Numbers = std::vector<float>;

// Normal numbers that bfloat16 holds, too, so that kernels of both types see the same; `index`
// tells arrays apart.
inline Numbers drawn(std::int64_t count, std::uint64_t index, float mean = 0, float deviation = 1) {
  Numbers x(static_cast<std::size_t>(count));
  fill_normal({5, Purpose::kSystemNoise, index, 0}, x);
  for (float& v : x) {
    v = std::bit_cast<float>(std::bit_cast<std::uint32_t>(mean + deviation * v) & 0xffff0000u);
  }
  return x;
}

inline void convert(float from, float& to) { to = from; }
inline void convert(float from, kernels::BFloat16& to) {
  to.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from) >> 16);
}
inline float value_of(float x) { return x; }
inline float value_of(kernels::BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

inline float value_of(kernels::Fp8 x) {
  const int exponent = x.bits >> 3 & 15, digits = x.bits & 7;
  if ((x.bits & 127) == 127) return NAN;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(digits), -9)
                                   : std::ldexp(static_cast<float>(8 + digits), exponent - 10);
  return (x.bits & 128) != 0 ? -size : size;
}

// As a kernel takes them.
template <typename T>
std::vector<T> as(const Numbers& x) {
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) convert(x[i], y[i]);
  return y;
}

// Where a kernel is to write: NaN in every type.
template <typename T>
std::vector<T> unwritten(std::int64_t count) {
  return as<T>(Numbers(static_cast<std::size_t>(count), NAN));
}

template <typename T>
T* data_of(std::vector<T>& x) {
  return x.empty() ? nullptr : x.data();
}
template <typename T>
const T* data_of(const std::vector<T>& x) {
  return x.empty() ? nullptr : x.data();
}

// Both in units of 1 + the largest number wanted.
template <typename T>
void expect_close(const std::vector<T>& got, const Numbers& want, double bound,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1, error = 0;
  for (const float x : want) scale = std::max<double>(scale, 1 + std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double apart = std::abs(double{value_of(got[i])} - double{want[i]});
    ASSERT_FALSE(std::isnan(apart)) << what << ": nothing at " << i;
    error = std::max(error, apart);
  }
  EXPECT_LE(error, bound * scale) << what;
}

// The bounds of the kernels' tests on a GPU.
template <typename T>
inline constexpr double kBound = 1e-5;
template <>
inline constexpr double kBound<kernels::BFloat16> = 2e-2;

}  // namespace slift
