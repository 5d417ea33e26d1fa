#include "methods/loss.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <set>

#include "core/errors.h"

namespace slift {
namespace {

double value(const std::string& name, const Tensor& output, const Tensor& target) {
  return make_loss(name)(output, target).item<double>();
}

TEST(Loss, SmallCasesByHand) {
  const Tensor output = at::tensor({0.5f, -2.0f, 3.0f, 1.0f}).view({2, 2});
  const Tensor target = at::tensor({0.0f, 1.0f, 3.0f, 1.0f}).view({2, 2});
  EXPECT_NEAR(value("l2", output, target), (0.25 + 9) / 4, 1e-6);
  EXPECT_NEAR(value("l1", output, target), (0.5 + 3) / 4, 1e-6);
  EXPECT_NEAR(value("huber", output, target), (0.125 + 2.5) / 4, 1e-6);
}

TEST(Loss, EveryLossIsZeroAtTheTargetAndPullsTowardsIt) {
  std::set<std::string> names;
  for (const LossEntry& entry : loss_registry()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_NE(entry.summary, "");
    const Tensor target = at::randn({3, 1, 4, 4});
    EXPECT_EQ(entry.loss(target, target).item<double>(), 0);
    const Tensor output = (target + 2).detach().requires_grad_(true);
    const Tensor loss = entry.loss(output, target);
    EXPECT_EQ(loss.dim(), 0);
    loss.backward();
    EXPECT_TRUE((output.grad() > 0).all().item<bool>());
  }
}

TEST(Loss, UnknownNameSuggestsTheNearest) {
  try {
    make_loss("hubert");
    FAIL() << "must throw";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "unknown loss hubert; the nearest is huber");
  }
}

}  // namespace
}  // namespace slift
