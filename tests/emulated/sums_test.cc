// Labels, distances and sums of columns, against the CPU's kernels or their definition.
#include <fmt/format.h>

#include "testing.h"

namespace slift {
namespace {

TEST(EmulatedLabels, HaveTheBitsOfTheCpu) {
  const std::vector<std::int64_t> index = {0, 5, 1'000'000'007};
  const std::int64_t step = 12345;
  for (const auto kind : {kernels::LabelKind::kGaussian, kernels::LabelKind::kSphere}) {
    for (const std::int64_t dim : {1, 7, 64, 300}) {
      const auto rows = static_cast<std::int64_t>(index.size());
      Numbers got = unwritten<float>(rows * dim), want = got;
      kernels::LabelArgs args{
          3, Purpose::kRolloutLabel, index.data(), &step, rows, dim, kind, got.data()};
      kernels::cuda::draw_labels(args, nullptr);
      args.out = want.data();
      kernels::cpu::draw_labels(args);
      EXPECT_EQ(got, want) << dim;
    }
  }
}

TEST(EmulatedDistances, AgreeWithTheCpu) {
  struct Sizes {
    std::int64_t na, nb, n;
  };
  for (const auto& [na, nb, n] : {Sizes{1, 1, 1}, {3, 5, 33}, {65, 64, 300}, {2, 130, 257}}) {
    const Numbers a = drawn(na * n, 0), b = drawn(nb * n, 1);
    const std::vector<double> before(static_cast<std::size_t>(na * nb), 5);
    std::vector<double> got = before, want = before;
    kernels::cuda::squared_distances({a.data(), b.data(), na, nb, n, got.data()}, nullptr);
    kernels::cpu::squared_distances({a.data(), b.data(), na, nb, n, want.data()});
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 4e-5 * want[i]) << na << " x " << nb << " x " << n;
    }
  }
}

// In float64, of columns [rows, columns].
Numbers summed(const Numbers& x, std::int64_t columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  return {sums.begin(), sums.end()};
}

TEST(EmulatedColumnSums, OfFewRows) {
  const std::int64_t columns = 45;
  for (const std::int64_t rows : {1, 17, 300}) {
    std::vector<Numbers> x, out;
    for (std::uint64_t i = 0; i < 6; ++i) {  // more than a launch takes
      x.push_back(drawn(rows * columns, i));
      out.push_back(unwritten<float>(columns));
    }
    std::vector<kernels::ColumnSum> sums;
    for (std::size_t i = 0; i < x.size(); ++i) sums.push_back({x[i].data(), out[i].data()});
    kernels::cuda::column_sums(sums, rows, columns, nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) {
      expect_close(out[i], summed(x[i], columns), 1e-6, fmt::format("{} rows, {}", rows, i));
    }
  }
}

TEST(EmulatedColumnSums, OfManyRows) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {700, 64}, {1000, 24}, {9, 4096}}) {
    const Numbers x = drawn(std::int64_t{rows} * columns, 0);
    const auto rounded = as<kernels::BFloat16>(x);
    auto out = unwritten<kernels::BFloat16>(columns);
    Numbers workspace = unwritten<float>(kernels::cuda::column_sums_workspace(rows, columns));
    ASSERT_TRUE(kernels::cuda::can_sum_columns(columns));
    kernels::cuda::column_sums(rounded.data(), rows, columns, out.data(), workspace.data(),
                               nullptr);
    expect_close(out, summed(x, columns), 4e-3, fmt::format("{} x {}", rows, columns));
  }
}

}  // namespace
}  // namespace slift
