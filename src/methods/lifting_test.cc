#include "methods/lifting.h"

#include <gtest/gtest.h>

#include <cmath>

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

// A network that gives its label.
class Echo : public Backbone {
 public:
  using Backbone::Backbone;
  void initialise(std::uint64_t) override {}

 private:
  Tensor forward_impl(const Tensor&, const Tensor& label) const override { return label; }
};

constexpr std::int64_t kRows = 4000, kDimension = 5;

TrainingBatch batch_at(std::int64_t iteration) {
  return {.window = at::zeros({kRows, 1, kDimension}),
          .target = at::zeros({kRows, kDimension}),
          .transition = at::arange(kRows, at::kLong),
          .iteration = at::full({1}, iteration, at::kLong),
          .seed = 7,
          .per_trajectory = 1};
}

// The labels that the loss sees.
Tensor seen(const Lifting& lifting, std::int64_t iteration) {
  const Echo echo(*lifting.backbone_shape());
  Tensor labels;
  lifting.loss(&echo, batch_at(iteration), [&](const Tensor& output, const Tensor&) {
    labels = output;
    return output.mean();
  });
  return labels;
}

TEST(Lifting, JitterMovesLabelsAtEachVisitAndKeepsThemNormal) {
  constexpr double kJitter = 0.5;
  const Lifting lifting({kDimension, "gaussian", 2, kJitter}, {kDimension}, 1);
  const Echo echo(*lifting.backbone_shape());
  const Tensor middle = lifting.recall(&echo, batch_at(0));
  EXPECT_TRUE(at::equal(middle, lifting.recall(&echo, batch_at(1))));
  const Tensor first = seen(lifting, 0), second = seen(lifting, 1);
  EXPECT_TRUE(at::equal(first, seen(lifting, 0)));
  const double n = static_cast<double>(kRows * kDimension);
  const auto variance = [](const Tensor& x) { return x.square().mean().item<double>(); };
  // What labels of a rollout are.
  EXPECT_NEAR(variance(first), 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(first.mean().item<double>(), 0, 5 / std::sqrt(n));
  const double share = kJitter * kJitter / (1 + kJitter * kJitter);
  EXPECT_NEAR(variance(first - middle), share, 5 * share * std::sqrt(2 / n));
  EXPECT_NEAR(variance(first - second), 2 * share, 10 * share * std::sqrt(2 / n));
}

TEST(Lifting, WithoutJitterEveryVisitSeesTheLabelItself) {
  const Lifting lifting({kDimension, "gaussian"}, {kDimension}, 1);
  const Tensor label = LabelSource{7, kDimension}.for_transitions(at::arange(kRows, at::kLong));
  EXPECT_TRUE(at::equal(seen(lifting, 0), label));
  EXPECT_TRUE(at::equal(seen(lifting, 9), label));
  EXPECT_EQ(error_of([] {
              Lifting({4, "sphere", 0, 0.1}, {2}, 1);
            }),
            "lifting.jitter needs lifting.kind = gaussian");
}

}  // namespace
}  // namespace slift
