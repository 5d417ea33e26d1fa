#include "methods/lifting.h"

#include <gtest/gtest.h>

#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

TEST(Lifting, ComponentsThatPersistMustBeThere) {
  const auto error = [](std::int64_t persistent, const std::string& kind) {
    return error_of([&] { Lifting({4, kind, persistent}, {2}, 1); });
  };
  EXPECT_EQ(error(0, "sphere"), "");
  EXPECT_EQ(error(4, "gaussian"), "");
  EXPECT_EQ(error(5, "gaussian"), "lifting.persistent = 5 must be at most lifting.dimension = 4");
  EXPECT_EQ(error(1, "sphere"), "lifting.persistent needs lifting.kind = gaussian");
}

// The network is recalled with the labels of the trajectories.
TEST(Lifting, TransitionsOfATrajectoryShareWhatPersists) {
  const Lifting lifting({3, "gaussian", 3}, {2}, 1);
  NetConfig net;
  net.width = 8;
  net.layers = 1;
  const auto backbone = make_backbone(net, *lifting.backbone_shape());
  backbone->initialise(1);
  TrainingBatch batch{.window = at::zeros({6, 1, 2}),
                      .target = at::zeros({6, 2}),
                      .transition = at::arange(6, at::kLong),
                      .iteration = at::zeros({1}, at::kLong),
                      .seed = 1,
                      .per_trajectory = 3};
  const Tensor out = lifting.recall(backbone.get(), batch).detach().view({2, 3, 2});
  EXPECT_TRUE(at::equal(out, out.narrow(1, 0, 1).expand_as(out)));
  EXPECT_FALSE(at::equal(out.select(0, 0), out.select(0, 1)));
}

}  // namespace
}  // namespace slift
