#include "training/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/errors.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

TEST(Schedule, RisesLinearlyThenFallsAsACosine) {
  const auto cosine = [](double phase) { return 0.5 * (1 + std::cos(M_PI * phase)); };
  EXPECT_NEAR(schedule(0, 100, 0), 0.01, 1e-15);  // not 0: the first step moves
  EXPECT_NEAR(schedule(49, 100, 0.049), 0.5 * cosine(0.049), 1e-15);
  EXPECT_NEAR(schedule(99, 100, 0.099), cosine(0.099), 1e-15);
  EXPECT_NEAR(schedule(100, 100, 0.1), cosine(0.1), 1e-15);
  EXPECT_NEAR(schedule(500, 100, 0.5), 0.5, 1e-15);
  EXPECT_NEAR(schedule(1000, 100, 1), 0, 1e-15);
  EXPECT_GT(schedule(999, 100, 0.999), 0);
  EXPECT_EQ(schedule(0, 0, 0), 1);
}

class Optimizers : public testing::TestWithParam<at::Device> {
 protected:
  Optimizers() {
    config_.lr = 1e-2;
    config_.weight_decay = 0.1;
    config_.clip = 1;
    config_.ema = 0.5;
    for (const double start : {1.0, -2.0}) {
      params_.push_back(at::full({3}, start).to(GetParam()).requires_grad_());
    }
    weights_.set_masters(params_);
  }

  // The gradients of step t = 1, 2, ...; their norm alternates around the clipping bound.
  static Tensor gradient(std::size_t param, int t) {
    const double size = t % 2 == 0 ? 2.0 : 0.1;
    return size * (at::arange(3, at::kDouble) + static_cast<double>(param) + t).sin();
  }
  static double norm(int t) {
    return std::hypot(gradient(0, t).norm().item<double>(), gradient(1, t).norm().item<double>());
  }
  void step(Optimizer& optimizer, int t) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      params_[i].mutable_grad() = gradient(i, t).to(params_[i].options());
    }
    optimizer.prepare(config_.lr);
    optimizer.update();
  }

  TrainConfig config_;
  std::vector<Tensor> params_;
  Weights weights_;
};

TEST_P(Optimizers, StepIsClippedAdamWWithRampedEma) {
  Optimizer optimizer(weights_, config_);
  std::vector<Tensor> p, m, v, ema;
  for (const Tensor& param : params_) {
    p.push_back(param.detach().cpu().to(at::kDouble));
    m.push_back(at::zeros({3}, at::kDouble));
    v.push_back(at::zeros({3}, at::kDouble));
    ema.push_back(p.back().clone());
  }
  for (int t = 1; t <= 15; ++t) {
    step(optimizer, t);
    EXPECT_EQ(optimizer.steps(), t);
    EXPECT_NEAR(optimizer.gradient_norm(), norm(t), 1e-6 * norm(t));
    const double clip = std::min(1.0, config_.clip / norm(t));
    // 2/11, 3/12, ... until it reaches 0.5 at t = 8.
    const double decay = std::min(0.5, (1.0 + t) / (10.0 + t));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const Tensor g = clip * gradient(i, t);
      m[i] = config_.beta1 * m[i] + (1 - config_.beta1) * g;
      v[i] = config_.beta2 * v[i] + (1 - config_.beta2) * g * g;
      const Tensor root = (v[i] / (1 - std::pow(config_.beta2, t))).sqrt() + config_.eps;
      p[i] = p[i] * (1 - config_.lr * config_.weight_decay) -
             config_.lr * m[i] / (1 - std::pow(config_.beta1, t)) / root;
      ema[i] = decay * ema[i] + (1 - decay) * p[i];
      // 15 steps of 1e-2, each with a relative error of 1e-5 from beta2's rounding, and the
      // roundings of the weights.
      const auto close = [](const Tensor& a, const Tensor& b) {
        return (a.detach().cpu().to(at::kDouble) - b).abs().max().item<double>() < 3e-6;
      };
      EXPECT_TRUE(close(params_[i], p[i])) << "step " << t;
      EXPECT_TRUE(close(weights_.best()[i], ema[i])) << "step " << t;
      EXPECT_FALSE(params_[i].grad().defined());
    }
  }
}

TEST_P(Optimizers, ZeroClipDoesNotClip) {
  config_.clip = 0;
  config_.eps = 1;  // makes the step depend on the gradient's size
  config_.weight_decay = 0;
  Optimizer optimizer(weights_, config_);
  step(optimizer, 2);
  const Tensor g = gradient(0, 2);
  const Tensor expected = 1 - config_.lr * g / (g.abs() + 1);
  EXPECT_LT((params_[0].detach().cpu().to(at::kDouble) - expected).abs().max().item<double>(),
            1e-6);
}

TEST_P(Optimizers, StateContinuesBitForBit) {
  Optimizer through(weights_, config_);
  for (int t = 1; t <= 3; ++t) step(through, t);
  std::map<std::string, Tensor> saved;
  for (const auto& [name, tensor] : through.state()) saved[name] = tensor.detach().cpu().clone();
  EXPECT_EQ(saved.size(), 8u);
  for (int t = 4; t <= 6; ++t) step(through, t);
  const std::map<std::string, Tensor> expected = through.state();

  for (Tensor& p : params_) p = at::zeros({3}).to(GetParam()).requires_grad_();
  Weights fresh;
  fresh.set_masters(params_);
  Optimizer resumed(fresh, config_);
  resumed.load_state(saved, 3, "state");
  EXPECT_EQ(resumed.steps(), 3);
  for (int t = 4; t <= 6; ++t) step(resumed, t);
  for (const auto& [name, tensor] : resumed.state()) {
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
  }
}

// Through everything that changes the masters.
TEST_P(Optimizers, WorkingWeightsStayEqualToTheMasters) {
  weights_.add_working(params_[1]);
  weights_.set_type(at::kBFloat16);
  Optimizer optimizer(weights_, config_);
  const Tensor working = weights_.working()[1];
  EXPECT_FALSE(weights_.working()[0].defined());
  const auto is_current = [&] { return at::equal(working, params_[1].detach().to(at::kBFloat16)); };
  EXPECT_TRUE(is_current());
  std::map<std::string, Tensor> start;
  for (const auto& [name, tensor] : optimizer.state()) start[name] = tensor.detach().clone();
  EXPECT_EQ(start.size(), 8u);  // working weights are not state
  step(optimizer, 1);
  EXPECT_TRUE(is_current());
  EXPECT_FALSE(at::equal(working, start.at("param.1").to(at::kBFloat16)));
  optimizer.load_state(start, 0, "state");
  optimizer.prepare(config_.lr);  // what a recorded step is replayed after
  EXPECT_TRUE(at::equal(working, start.at("param.1").to(at::kBFloat16)));
}

// The same numbers as gradients of masters, of working weights, and partly of both.
TEST_P(Optimizers, GradientsOfWorkingWeightsCountAsThoseOfTheMasters) {
  enum class Place { kMaster, kWorking, kBoth, kGathered };
  const at::TensorOptions there(GetParam());
  // Halves of a gradient of 7 bits are exact, so that all places hold the same sum.
  const auto gradient_of = [&](std::size_t i, int t) {
    return ((gradient(i, t) * 64).round() / 64).to(there.dtype(at::kFloat));
  };
  const auto run = [&](Place place) {
    Weights weights;
    std::vector<Tensor> params;
    for (const Tensor& p : params_) {
      params.push_back(p.detach().clone().requires_grad_());
      weights.add_working(params.back());
    }
    weights.set_masters(params);
    weights.set_type(at::kBFloat16);
    Optimizer optimizer(weights, config_);
    std::vector<Tensor> working = weights.working();
    for (int t = 1; t <= 4; ++t) {
      for (std::size_t i = 0; i < params.size(); ++i) {
        const Tensor g = gradient_of(i, t);
        if (place == Place::kMaster) {
          params[i].mutable_grad() = g;
        } else {
          const bool both = place == Place::kBoth;
          if (both) params[i].mutable_grad() = 0.5 * g;
          working[i].mutable_grad() = ((both ? 0.5 : 1.0) * g).to(at::kBFloat16);
        }
      }
      if (place == Place::kGathered) {
        optimizer.gather_gradients();
        for (std::size_t i = 0; i < params.size(); ++i) {
          EXPECT_FALSE(working[i].grad().defined());
          EXPECT_EQ(params[i].grad().scalar_type(), at::kFloat);
          EXPECT_TRUE(params[i].grad().equal(gradient_of(i, t)));
        }
      }
      optimizer.prepare(config_.lr);
      optimizer.update();
      for (std::size_t i = 0; i < params.size(); ++i) {
        EXPECT_FALSE(params[i].grad().defined());
        EXPECT_FALSE(working[i].grad().defined());
      }
    }
    std::map<std::string, Tensor> state = optimizer.state();
    state["norm"] = at::scalar_tensor(optimizer.gradient_norm(), at::kDouble);
    return state;
  };
  const std::map<std::string, Tensor> expected = run(Place::kMaster);
  for (const Place place : {Place::kWorking, Place::kBoth, Place::kGathered}) {
    for (const auto& [name, tensor] : run(place)) {
      EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name << " " << static_cast<int>(place);
    }
  }
}

// As a sum of bfloat16 numbers it would lose the small ones.
TEST_P(Optimizers, GatheredGradientsAddUpInFloat32) {
  Tensor param = at::zeros({2}, at::TensorOptions(GetParam())).requires_grad_();
  Weights weights;
  weights.add_working(param);
  weights.set_masters({param});
  weights.set_type(at::kBFloat16);
  Optimizer optimizer(weights, config_);
  Tensor working = weights.working()[0];
  for (const double g : {256.0, 1.0, 1.0}) {
    working.mutable_grad() = at::full_like(working.detach(), g);
    optimizer.gather_gradients();
  }
  EXPECT_TRUE(param.grad().equal(at::full_like(param.detach(), 258)));
  param.mutable_grad() = Tensor();
  EXPECT_THROW(optimizer.gather_gradients(), c10::Error);
  EXPECT_THROW(optimizer.update(), c10::Error);
}

// Row-major gradients of channels-last weights.
TEST_P(Optimizers, GradientsMayHaveAnotherLayout) {
  const Tensor start = at::arange(24, at::kFloat).view({2, 3, 2, 2}) / 8;
  const Tensor grad = (at::arange(24, at::kFloat).view({2, 3, 2, 2}) - 9).sin().to(GetParam());
  std::vector<Tensor> results;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    Tensor param = start.to(GetParam()).clone(format).requires_grad_();
    Weights weights;
    weights.set_masters({param});
    Optimizer optimizer(weights, config_);
    param.mutable_grad() = grad;
    optimizer.prepare(config_.lr);
    optimizer.update();
    EXPECT_TRUE(param.is_contiguous(format));
    results.push_back(param.detach().contiguous());
  }
  // The norm is summed in another order.
  EXPECT_TRUE(at::allclose(results[0], results[1], 1e-6, 1e-7));
}

TEST_P(Optimizers, StatesThatDoNotFitAreRefused) {
  Optimizer optimizer(weights_, config_);
  const std::map<std::string, Tensor> good = optimizer.state();
  const auto refused = [&](const std::map<std::string, Tensor>& state) {
    try {
      optimizer.load_state(state, 1, "the/file");
      return false;
    } catch (const UserError& error) {
      const std::string text = error.what();
      return text.find("the/file") != std::string::npos &&
             text.find("second.1") != std::string::npos;
    }
  };
  std::map<std::string, Tensor> missing = good, reshaped = good;
  missing.erase("second.1");
  reshaped["second.1"] = at::zeros({4});
  EXPECT_TRUE(refused(missing));
  EXPECT_TRUE(refused(reshaped));
  EXPECT_NO_THROW(optimizer.load_state(good, 1, "the/file"));
}

INSTANTIATE_TEST_SUITE_P(Devices, Optimizers, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
