#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

using kernels::LabelKind;

// Dimensions around a Philox block of 4, and the empty label.
constexpr std::int64_t kDims[] = {0, 1, 2, 3, 4, 5, 7, 16, 63, 130};
constexpr std::uint64_t kSeed = 0x1234'5678'9abc'def0;
constexpr std::int64_t kStep = 3;

// The definition: fill_normal of core, a row at a time. The sphere sums in the order of components.
std::vector<float> expected_label(std::int64_t index, std::int64_t dim, LabelKind kind) {
  std::vector<float> label(static_cast<std::size_t>(dim));
  fill_normal({kSeed, Purpose::kRolloutLabel, static_cast<std::uint64_t>(index),
               static_cast<std::uint32_t>(kStep)},
              label);
  if (kind == LabelKind::kSphere) {
    float squares = 0;
    for (const float x : label) squares += x * x;
    for (float& x : label) x /= std::sqrt(squares);
  }
  return label;
}

class Labels : public testing::TestWithParam<at::Device> {
 protected:
  ~Labels() override { at::set_num_threads(threads_); }

  // Drawn on the device under test, returned on the CPU.
  Tensor draw(const Tensor& index, std::int64_t dim, LabelKind kind = LabelKind::kGaussian) const {
    return ops::draw_labels(kSeed, Purpose::kRolloutLabel, index.to(GetParam()),
                            at::full({1}, kStep, at::TensorOptions(at::kLong).device(GetParam())),
                            dim, kind)
        .cpu();
  }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(Labels, AreTheRowsOfFillNormalBitForBit) {
  const std::vector<std::int64_t> index = {0, 1, 2, 5, 4, (1ll << 32) + 1, (1ll << 56) - 1};
  for (const LabelKind kind : {LabelKind::kGaussian, LabelKind::kSphere}) {
    for (const std::int64_t dim : kDims) {
      const Tensor got = draw(at::tensor(index, at::kLong), dim, kind);
      ASSERT_EQ(got.sizes(),
                (std::vector<std::int64_t>{static_cast<std::int64_t>(index.size()), dim}));
      for (std::size_t r = 0; r < index.size(); ++r) {
        const std::vector<float> expected = expected_label(index[r], dim, kind);
        const float* row = got.data_ptr<float>() + static_cast<std::int64_t>(r) * dim;
        EXPECT_TRUE(dim == 0 || std::memcmp(row, expected.data(), expected.size() * 4) == 0)
            << "dimension " << dim << ", index " << index[r];
      }
    }
  }
}

TEST_P(Labels, OnTheSphereHaveUnitLength) {
  for (const std::int64_t dim : kDims) {
    if (dim == 0) continue;
    const Tensor length =
        draw(at::arange(500, at::kLong), dim, LabelKind::kSphere).to(at::kDouble).norm(2, 1);
    // Adding dim squares one by one errs by at most dim/2 roundings of the length, plus the root's
    // and the divisions'.
    const double tolerance = 0x1p-24 * (0.5 * static_cast<double>(dim) + 4);
    EXPECT_LT((length - 1).abs().max().item<double>(), tolerance) << dim;
  }
}

TEST_P(Labels, DoNotDependOnTheBatchTheyAreIn) {
  const Tensor all = draw(at::arange(1000, at::kLong), 7);
  EXPECT_TRUE(at::equal(draw(at::arange(500, 700, at::kLong), 7), all.slice(0, 500, 700)));
  EXPECT_TRUE(at::equal(draw(at::tensor({999, 3, 3}, at::kLong), 7),
                        at::stack({all[999], all[3], all[3]})));
  EXPECT_TRUE(at::equal(draw(at::arange(1000, at::kLong).flip(0), 7), all.flip(0)));
  // Every second index: a view that is not contiguous.
  EXPECT_TRUE(at::equal(draw(at::arange(1000, at::kLong).slice(0, 0, 1000, 2), 7),
                        all.slice(0, 0, 1000, 2)));
  EXPECT_EQ(draw(at::empty({0}, at::kLong), 7).numel(), 0);
}

TEST_P(Labels, DoNotDependOnTheNumberOfThreads) {
  const Tensor index = at::arange(1003, at::kLong);
  at::set_num_threads(1);
  const Tensor one = draw(index, 9, LabelKind::kSphere);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(draw(index, 9, LabelKind::kSphere), one)) << threads;
  }
}

TEST_P(Labels, StayOnTheirDevice) {
  const Tensor index = at::arange(2, at::kLong).to(GetParam());
  const Tensor got = ops::draw_labels(1, Purpose::kTrainingLabel, index, {}, 3, {});
  EXPECT_EQ(got.device(), index.device());
  EXPECT_EQ(got.scalar_type(), at::kFloat);
}

TEST_P(Labels, AreDrawnIntoMemoryThatIsGiven) {
  const Tensor index = at::arange(9, at::kLong), out = at::full({11, 6}, -7.0f).to(GetParam());
  const auto draw_into = [&](const Tensor& to) {
    ops::draw_labels(kSeed, Purpose::kRolloutLabel, index.to(GetParam()),
                     at::full({1}, kStep, at::TensorOptions(at::kLong).device(GetParam())),
                     LabelKind::kGaussian, to);
  };
  draw_into(out.narrow(0, 1, 9));
  EXPECT_TRUE(at::equal(out.narrow(0, 1, 9).cpu(), draw(index, 6)));
  EXPECT_EQ((out == -7.0f).sum().item<std::int64_t>(), 2 * 6);
  EXPECT_THROW(draw_into(out), c10::Error);
  EXPECT_THROW(draw_into(out.narrow(0, 0, 9).narrow(1, 0, 3)), c10::Error);
  EXPECT_THROW(draw_into(out.narrow(0, 0, 9).to(at::kDouble)), c10::Error);
}

TEST_P(Labels, WrongIndicesAreABugOfTheCaller) {
  EXPECT_THROW(draw(at::zeros({2, 2}, at::kLong), 3), c10::Error);
  EXPECT_THROW(draw(at::zeros({2}, at::kInt), 3), c10::Error);
}

TEST_P(Labels, ReadTheirStepFromMemory) {
  const Tensor index = at::arange(5, at::kLong).to(GetParam());
  const auto draw_at = [&](const Tensor& step) {
    return ops::draw_labels(kSeed, Purpose::kRolloutLabel, index, step, 6, {}).cpu();
  };
  const Tensor step = at::full({1}, kStep, index.options());
  EXPECT_TRUE(at::equal(draw_at(step), draw(at::arange(5, at::kLong), 6)));
  const Tensor steps = at::arange(kStep + 1, index.options());  // a 0-dimensional view each
  EXPECT_TRUE(at::equal(draw_at(steps[kStep]), draw_at(step)));
  EXPECT_TRUE(at::equal(draw_at({}), draw_at(steps[0])));
  step.add_(1);
  EXPECT_EQ((draw_at(step) == draw_at(steps[kStep])).sum().item<std::int64_t>(), 0);
}

TEST_P(Labels, WrongStepsAreABugOfTheCaller) {
  const Tensor index = at::arange(2, at::kLong).to(GetParam());
  for (const at::Tensor& step :
       {at::zeros({2}, index.options()), at::zeros({1}, index.options().dtype(at::kInt))}) {
    EXPECT_THROW(ops::draw_labels(1, Purpose::kRolloutLabel, index, step, 3, {}), c10::Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Labels, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
