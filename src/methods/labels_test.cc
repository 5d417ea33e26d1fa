#include "methods/labels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/errors.h"
#include "methods/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kCount = 1 << 15, kDim = 6;
// Four standard errors of a mean of kCount values of unit variance.
const double kBound = 4 / std::sqrt(static_cast<double>(kCount));

Tensor indices(std::int64_t count = kCount) { return at::arange(count, at::kLong); }

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

TEST(Labels, OfTransitionsAreStandardNormal) {
  const LabelSource source{5, kDim};
  const Tensor z = source.for_transitions(indices()).to(at::kDouble);
  EXPECT_LT(largest(z.mean(0)), kBound);
  EXPECT_LT(largest((z * z).mean(0) - 1), std::sqrt(2.0) * kBound);
  EXPECT_LT(largest((z * z * z).mean(0)), std::sqrt(15.0) * kBound);
}

TEST(Labels, AreIndependentAcrossTransitionsComponentsAndSeeds) {
  const LabelSource source{5, kDim}, other{6, kDim};
  const Tensor z = source.for_transitions(indices()).to(at::kDouble);
  const Tensor next = z.roll(1, 0);
  const auto count = static_cast<double>(kCount);
  // [kDim, kDim] matrices of correlations; each entry has standard error 1 / sqrt(kCount).
  EXPECT_LT(largest(z.t().mm(next) / count), kBound);
  EXPECT_LT(largest((z.t().mm(z) / count).triu(1)), kBound);
  EXPECT_LT(largest(z.t().mm(other.for_transitions(indices()).to(at::kDouble)) / count), kBound);
  // A dependence of the sizes alone would leave those correlations at zero.
  const Tensor square = z * z - 1, next_square = square.roll(1, 0);
  EXPECT_LT(largest(square.t().mm(next_square) / count), 2 * kBound);
}

TEST(Labels, OfTheSameTransitionNeverChange) {
  const LabelSource source{5, kDim};
  EXPECT_TRUE(at::equal(source.for_transitions(indices(9)), source.for_transitions(indices(9))));
}

TEST(Labels, OfTrainingAndRolloutDiffer) {
  const LabelSource source{5, kDim};
  const Tensor training = source.for_transitions(indices()).to(at::kDouble);
  const Tensor rollout = source.for_members(indices(), at_step(0)).to(at::kDouble);
  EXPECT_EQ((training == rollout).sum().item<std::int64_t>(), 0);
  EXPECT_LT(largest(training.t().mm(rollout) / static_cast<double>(kCount)), kBound);
}

TEST(Labels, AreFreshAtEveryRolloutStep) {
  const LabelSource source{5, kDim};
  const Tensor first = source.for_members(indices(), at_step(0)).to(at::kDouble);
  const Tensor second = source.for_members(indices(), at_step(1)).to(at::kDouble);
  EXPECT_EQ((first == second).sum().item<std::int64_t>(), 0);
  EXPECT_LT(largest(first.t().mm(second) / static_cast<double>(kCount)), kBound);
  EXPECT_TRUE(at::equal(first, source.for_members(indices(), at_step(0)).to(at::kDouble)));
}

TEST(Labels, PersistentComponentsBelongToTheTrajectoryAndTheMember) {
  const LabelSource source{5, kDim, kernels::LabelKind::kGaussian, /*persistent=*/2};
  const LabelSource paper{5, kDim};
  constexpr std::int64_t kSteps = 16, kTrajectories = 1 << 14;
  const Tensor all = source.for_transitions(indices(kSteps * kTrajectories), kSteps);
  const Tensor z = all.view({kTrajectories, kSteps, kDim}).to(at::kDouble);
  const Tensor kept = z.narrow(2, 0, 2), own = z.narrow(2, 2, kDim - 2);
  EXPECT_TRUE(at::equal(kept, kept.narrow(1, 0, 1).expand_as(kept)));
  const Tensor first = kept.select(1, 0);
  const double bound = 4 / std::sqrt(static_cast<double>(kTrajectories));
  EXPECT_LT(largest(first.mean(0)), bound);
  EXPECT_LT(largest((first * first).mean(0) - 1), std::sqrt(2.0) * bound);
  EXPECT_LT(largest((own.select(1, 0) * own.select(1, 1)).mean(0)), bound);

  const Tensor now = source.for_members(indices(), at_step(0)).to(at::kDouble);
  const Tensor later = source.for_members(indices(), at_step(9)).to(at::kDouble);
  EXPECT_TRUE(at::equal(now.narrow(1, 0, 2), later.narrow(1, 0, 2)));
  EXPECT_EQ((now == later).narrow(1, 2, kDim - 2).sum().item<std::int64_t>(), 0);
  EXPECT_LT(largest((now * now).mean(0) - 1), std::sqrt(2.0) * kBound);
  // Training and rollout share nothing, nor do the kept ones and the paper's.
  EXPECT_LT(largest(now.narrow(0, 0, kTrajectories).narrow(1, 0, 2).t().mm(first) / kTrajectories),
            bound);
  EXPECT_EQ((now == paper.for_members(indices(), at_step(0)).to(at::kDouble))
                .narrow(1, 0, 2)
                .sum()
                .item<std::int64_t>(),
            0);
}

TEST(Labels, OnTheSphereHaveTheMomentsOfTheSphere) {
  const LabelSource source{5, kDim, kernels::LabelKind::kSphere};
  const Tensor z = source.for_transitions(indices()).to(at::kDouble);
  const double d = static_cast<double>(kDim);
  EXPECT_LT(largest(z.mean(0)), kBound / std::sqrt(d));
  // E x^4 = 3 / (d (d + 2)).
  const double deviation = std::sqrt(3 / (d * (d + 2)) - 1 / (d * d));
  EXPECT_LT(largest((z * z).mean(0) - 1 / d), deviation * kBound);
  EXPECT_LT(largest(z.norm(2, 1) - 1), 1e-6);
}

TEST(Labels, DimensionZeroIsTheDeterministicBaseline) {
  const LabelSource source{5, 0};
  EXPECT_EQ(source.for_transitions(indices(3)).sizes(), (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(source.for_members(indices(3), at_step(2)).sizes(), (std::vector<std::int64_t>{3, 0}));
}

TEST(Labels, KindsAreParsed) {
  EXPECT_EQ(parse_label_kind("gaussian"), kernels::LabelKind::kGaussian);
  EXPECT_EQ(parse_label_kind("sphere"), kernels::LabelKind::kSphere);
  for (const char* bad : {"", "normal", "Gaussian", "sphere "}) {
    try {
      parse_label_kind(bad);
      FAIL() << bad;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(), fmt::format("lifting.kind must be gaussian or sphere, got {}", bad));
    }
  }
}

}  // namespace
}  // namespace slift
