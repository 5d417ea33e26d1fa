#include "nets/unet_blocks.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "nets/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

double largest_of(const Tensor& x) { return x.abs().max().item<double>(); }

class FilmStackOnDevice : public testing::TestWithParam<at::Device> {
 protected:
  FilmStackOnDevice() {
    for (const std::int64_t outputs : {16, 48, 32}) {
      const auto layer = std::make_shared<Linear>(weights_, 24, outputs, 1.0);
      layer->initialise(1, layers_.size());
      layer->to(GetParam());
      torch::NoGradGuard no_grad;
      layer->parameters()[1].copy_(normals({outputs}, layers_.size()));
      layers_.push_back(layer);
    }
  }
  FilmStack stack() { return FilmStack(weights_, {layers_.begin(), layers_.end()}); }
  std::vector<Tensor> own_films(const Tensor& e) const {
    std::vector<Tensor> all;
    for (const auto& layer : layers_) all.push_back(layer->forward(e));
    return all;
  }
  // Of sum_i |film_i|^2 i, with respect to e and all working weights, in float32.
  std::vector<Tensor> gradients(const Tensor& e, const std::vector<Tensor>& films) {
    Tensor loss = at::zeros({}, films[0].options().dtype(at::kFloat));
    for (std::size_t i = 0; i < films.size(); ++i) {
      loss = loss + static_cast<double>(i + 1) * films[i].to(at::kFloat).square().sum();
    }
    std::vector<Tensor> leaves = {e};
    std::vector<Tensor> masters;
    for (const auto& layer : layers_) {
      for (const Tensor& p : layer->parameters()) masters.push_back(p);
    }
    weights_.set_masters(masters);
    for (const Tensor& working : weights_.working()) leaves.push_back(working);
    std::vector<Tensor> all = torch::autograd::grad({loss}, leaves);
    for (Tensor& gradient : all) gradient = gradient.to(at::kFloat);
    return all;
  }
  // What a net does before it is used, without gradients and with them.
  void sync() {
    const torch::NoGradGuard no_grad;
    weights_.sync();
  }
  Weights weights_;
  std::vector<std::shared_ptr<Linear>> layers_;
};

TEST_P(FilmStackOnDevice, IsTheLayersOneByOne) {
  FilmStack films = stack();
  const Tensor e = normals({5, 24}, 9).to(GetParam());
  const std::vector<Tensor> plain = own_films(e), same = films.forward(e);
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_TRUE(same[i].equal(plain[i])) << i;

  weights_.set_type(at::kBFloat16);
  sync();
  const Tensor rounded = e.to(at::kBFloat16).requires_grad_();
  const std::vector<Tensor> want = own_films(rounded), got = films.forward(rounded);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes());
    EXPECT_LT(largest_of(got[i] - want[i]), 1e-2 * largest_of(want[i])) << i;
    EXPECT_EQ(got[i].strides(), (std::vector<std::int64_t>{96, 1})) << "columns of one matrix";
  }
  const std::vector<Tensor> slopes = gradients(rounded, want), again = gradients(rounded, got);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    EXPECT_LT(largest_of(again[i] - slopes[i]), 2e-2 * largest_of(slopes[i])) << i;
    EXPECT_GT(largest_of(slopes[i]), 1) << i;
  }
}

TEST_P(FilmStackOnDevice, FollowsTheParametersInBFloat16) {
  FilmStack films = stack();
  weights_.set_type(at::kBFloat16);
  sync();
  const Tensor e = normals({5, 24}, 9).to(GetParam(), at::kBFloat16);
  const std::vector<Tensor> with_gradients = films.forward(e);
  EXPECT_TRUE(with_gradients[0].requires_grad());
  torch::NoGradGuard no_grad;
  for (const float change : {0.0f, 0.5f}) {
    for (const auto& layer : layers_) {
      for (Tensor& p : layer->parameters()) p.add_(change);
    }
    sync();
    const std::vector<Tensor> want = own_films(e), got = films.forward(e);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].scalar_type(), at::kFloat);
      EXPECT_LT(largest_of(got[i] - want[i]), 2e-2 * largest_of(want[i])) << i << " " << change;
      EXPECT_EQ(got[i].equal(with_gradients[i]), change == 0) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FilmStackOnDevice, testing::ValuesIn(test_devices()),
                         DeviceName());

}  // namespace
}  // namespace slift
