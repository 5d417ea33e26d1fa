#include "nets/weights.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <stdexcept>
#include <thread>

#include "tensor/torch_compat.h"

namespace slift {
namespace {

// One master of three equal numbers, its working copy and twice that.
class WeightsTest : public testing::Test {
 protected:
  WeightsTest() {
    weight_ = weights_.add_working(master_);
    twice_ = weights_.add_derived([this](at::ScalarType type) { return 2 * weight_->as(type); });
    weights_.set_masters({master_});
  }
  void set(float to) {
    const torch::NoGradGuard no_grad;
    master_.fill_(to);
  }
  // As a network that is evaluated.
  double twice(at::ScalarType type) {
    weights_.sync();
    return twice_->as(type)[0].item<double>();
  }

  Tensor master_ = at::ones({3}).requires_grad_();
  Weights weights_;
  std::shared_ptr<const Weight> weight_;
  std::shared_ptr<const DerivedWeight> twice_;
};

TEST_F(WeightsTest, DerivedOnesFollowTheMasterInPlace) {
  weights_.set_type(at::kBFloat16);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(twice(at::kBFloat16), 2);
  const void* const place = twice_->kept().data_ptr();
  set(3);
  EXPECT_EQ(twice_->kept()[0].item<double>(), 2) << "until it is asked for";
  EXPECT_EQ(twice(at::kBFloat16), 6);
  EXPECT_EQ(twice_->kept().data_ptr(), place);
  EXPECT_EQ(twice(at::kDouble), 6) << "another type";
}

TEST_F(WeightsTest, InFloatNothingIsKeptUnlessItIsAskedFor) {
  const auto kept = weights_.add_derived([this](at::ScalarType) { return master_ + 1; }, true);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(twice(at::kFloat), 2);
  EXPECT_FALSE(twice_->kept().defined());
  EXPECT_FALSE(weights_.working()[0].defined());
  EXPECT_EQ(kept->kept()[0].item<double>(), 2);
}

TEST_F(WeightsTest, WithGradientsDerivedOnesAreFunctionsOfTheWorkingOnes) {
  weights_.set_type(at::kBFloat16);
  weights_.sync();
  EXPECT_FALSE(twice_->kept().defined()) << "nobody needs it";
  twice_->as(at::kBFloat16).sum().backward();
  EXPECT_FALSE(master_.grad().defined());
  EXPECT_EQ(weight_->working.grad()[0].item<double>(), 2);
}

TEST_F(WeightsTest, WorkIsDoneOnceForAVersion) {
  int made = 0;
  weights_.add_derived([&](at::ScalarType) {
    ++made;
    return at::zeros({1});
  });
  weights_.set_type(at::kBFloat16);
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 3; ++i) weights_.sync();
  EXPECT_EQ(made, 1);
  weights_.invalidate();
  weights_.sync();
  weights_.sync();
  EXPECT_EQ(made, 2);
}

TEST_F(WeightsTest, AnUpdateByKernelsMakesDerivedOnesAnew) {
  weights_.set_type(at::kBFloat16);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(twice(at::kBFloat16), 2);
  weights_.begin_update();
  // Unseen by LibTorch, as the optimiser's kernels work.
  master_.data_ptr<float>()[0] = 5;
  weight_->working.data_ptr<at::BFloat16>()[0] = 5;
  EXPECT_EQ(twice(at::kBFloat16), 10);
  EXPECT_EQ(weight_->working[0].item<double>(), 5);
}

TEST_F(WeightsTest, WhatIsMadeInInferenceModeServesAutograd) {
  weights_.set_type(at::kBFloat16);
  {
    const c10::InferenceMode inference;
    EXPECT_EQ(twice(at::kBFloat16), 2);
  }
  set(2);
  weights_.sync();
  weight_->working.sum().backward();
  EXPECT_EQ(weight_->working.grad()[0].item<double>(), 1);
}

TEST_F(WeightsTest, ManyThreadsMaySync) {
  weights_.set_type(at::kBFloat16);
  for (int round = 0; round < 50; ++round) {
    set(static_cast<float>(round));
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const c10::InferenceMode inference;
        EXPECT_EQ(twice(at::kBFloat16), 2 * round);
      });
    }
  }
}

TEST_F(WeightsTest, TheAverageIsLentAndTakenBack) {
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(weights_.best()[0].is_same(master_));
  Tensor average = weights_.keep_average()[0];
  average.fill_(7);
  weights_.set_type(at::kBFloat16);
  weights_.with_average([&] { EXPECT_EQ(twice(at::kBFloat16), 14); });
  EXPECT_EQ(twice(at::kBFloat16), 2);
  EXPECT_THROW(weights_.with_average([] { throw std::runtime_error("as the test wants it"); }),
               std::runtime_error);
  EXPECT_EQ(twice(at::kBFloat16), 2);
  EXPECT_EQ(weights_.best()[0][0].item<double>(), 7);
}

}  // namespace
}  // namespace slift
