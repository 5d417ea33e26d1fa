#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

// Numbers of every size between -2 and 2 that no row or term shares with another.
Tensor scattered(std::int64_t rows, std::int64_t n, double phase) {
  return (at::arange(rows * n, at::kDouble) * 0.7548776662 + phase)
      .sin()
      .mul(2)
      .to(at::kFloat)
      .view({rows, n});
}

// The definition, in float64 throughout.
Tensor expected_distances(const Tensor& a, const Tensor& b) {
  const Tensor difference = a.to(at::kDouble).unsqueeze(1) - b.to(at::kDouble).unsqueeze(0);
  return difference.pow(2).sum(2);
}

class Distances : public testing::TestWithParam<at::Device> {
 protected:
  ~Distances() override { at::set_num_threads(threads_); }

  // Computed on the device under test, returned on the CPU.
  Tensor distances(const Tensor& a, const Tensor& b) const {
    Tensor out = at::zeros({a.size(0), b.size(0)}, at::device(GetParam()).dtype(at::kDouble));
    ops::add_squared_distances(a.to(GetParam()), b.to(GetParam()), out);
    return out.cpu();
  }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(Distances, AgreeWithFloat64) {
  // Around the tiles of 32 and 64 rows, patches of 4, vectors of 16 and panels of 256 terms.
  for (const auto& [na, nb, n] : std::vector<std::tuple<int, int, int>>{{1, 1, 1},
                                                                        {3, 5, 2},
                                                                        {4, 4, 16},
                                                                        {31, 33, 17},
                                                                        {65, 64, 255},
                                                                        {2, 130, 256},
                                                                        {67, 3, 257},
                                                                        {33, 34, 1000}}) {
    const Tensor a = scattered(na, n, 0.1), b = scattered(nb, n, 1.7);
    const Tensor expected = expected_distances(a, b);
    // The difference is rounded, then squared and rounded (3 roundings), then at most 256 sums are.
    const Tensor error = (distances(a, b) - expected).abs() / expected;
    EXPECT_LT(error.max().item<double>(), 0x1p-24 * 259) << na << " x " << nb << " x " << n;
  }
}

TEST_P(Distances, SmallOnesBetweenLargeVectorsKeepTheirDigits) {
  // |a|^2 + |b|^2 - 2 a.b in float32 would be wrong in the first digit here.
  const Tensor a = 1000 + scattered(5, 300, 0.1), b = a + 0x1p-10;
  const Tensor got = distances(a, b);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got[i][i].item<double>(), 300 * 0x1p-20);
  }
  EXPECT_TRUE(at::equal(distances(a, a).diagonal(), at::zeros({5}, at::kDouble)));
}

TEST_P(Distances, ManyTermsAreAddedInFloat64) {
  // In float32 16384 ones and as many times 2^-18 would lose all of the small ones' digits, even in
  // 16 sums.
  const std::int64_t n = 1 << 14;
  const Tensor a = at::ones({1, 2 * n});
  a.slice(1, n).fill_(0x1p-9);
  EXPECT_EQ(distances(a, at::zeros({1, 2 * n})).item<double>(),
            static_cast<double>(n) * (1 + 0x1p-18));
}

TEST_P(Distances, AddUpOverBlocksOfTerms) {
  const Tensor a = scattered(9, 700, 0.3), b = scattered(37, 700, 2.1);
  Tensor out = at::full({9, 37}, 5, at::device(GetParam()).dtype(at::kDouble));
  for (const auto& [first, last] : {std::pair(0, 512), std::pair(512, 700)}) {
    ops::add_squared_distances(a.slice(1, first, last).contiguous().to(GetParam()),
                               b.slice(1, first, last).contiguous().to(GetParam()), out);
  }
  EXPECT_TRUE(at::allclose(out.cpu(), distances(a, b) + 5, 1e-14, 0));
}

TEST_P(Distances, OfAPairDoNotDependOnOtherRows) {
  const Tensor a = scattered(70, 600, 0.3), b = scattered(67, 600, 2.1);
  const Tensor all = distances(a, b);
  EXPECT_TRUE(
      at::equal(distances(a.slice(0, 11, 48), b.slice(0, 30)), all.slice(0, 11, 48).slice(1, 30)));
  EXPECT_TRUE(at::equal(distances(a.slice(0, 69), b.slice(0, 66)), all.slice(0, 69).slice(1, 66)));
  EXPECT_TRUE(at::equal(distances(b, a), all.t()));
}

TEST_P(Distances, DoNotDependOnTheNumberOfThreads) {
  const Tensor a = scattered(203, 300, 0.3), b = scattered(40, 300, 2.1);
  at::set_num_threads(1);
  const Tensor one = distances(a, b);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(distances(a, b), one)) << threads;
  }
}

TEST_P(Distances, OfNothingAreNothing) {
  EXPECT_EQ(distances(at::zeros({0, 3}), at::zeros({2, 3})).numel(), 0);
  EXPECT_EQ(distances(at::zeros({2, 3}), at::zeros({0, 3})).numel(), 0);
  EXPECT_TRUE(
      at::equal(distances(at::zeros({2, 0}), at::zeros({3, 0})), at::zeros({2, 3}, at::kDouble)));
}

TEST_P(Distances, WrongTensorsAreABugOfTheCaller) {
  const auto real = at::device(GetParam()).dtype(at::kFloat);
  const Tensor a = at::zeros({2, 3}, real), b = at::zeros({4, 3}, real);
  Tensor out = at::zeros({2, 4}, real.dtype(at::kDouble)),
         turned = at::zeros({4, 2}, out.options());
  Tensor single = at::zeros({2, 4}, real);
  EXPECT_NO_THROW(ops::add_squared_distances(a, b, out));
  EXPECT_THROW(ops::add_squared_distances(a, b, turned), c10::Error);
  EXPECT_THROW(ops::add_squared_distances(a, b, single), c10::Error);
  EXPECT_THROW(ops::add_squared_distances(a.to(at::kDouble), b, out), c10::Error);
  EXPECT_THROW(ops::add_squared_distances(a, at::zeros({4, 2}, real), out), c10::Error);
  EXPECT_THROW(ops::add_squared_distances(a, at::zeros({3, 4}, real).t(), out), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Distances, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
