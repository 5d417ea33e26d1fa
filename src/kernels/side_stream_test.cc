#include "kernels/side_stream.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "tensor/step_graph.h"
#include "tensor/test_devices.h"
#ifdef SLIFT_WITH_CUDA
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace slift {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 2 x, which notes in backward what becomes_the_gradient() says and where its gradient is.
struct Noted {
  bool taken_over;
  const void* gradient;
};
std::vector<Noted> noted;

struct NotingDouble : torch::autograd::Function<NotingDouble> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return 2 * x;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    const bool taken_over = ops::becomes_the_gradient(x);
    const Tensor grad = at::empty_like(x).copy_(2 * grads[0]);  // with the strides of x
    noted.push_back({taken_over, grad.data_ptr()});
    return {grad};
  }
};

class SideStream : public testing::TestWithParam<at::Device> {
 protected:
  static Tensor leaf() {
    return at::ones({4, 8, 3, 3}, at::TensorOptions(GetParam()))
        .contiguous(at::MemoryFormat::ChannelsLast)
        .requires_grad_();
  }
  // Of the functions that ran in `backward`.
  template <typename Backward>
  static std::vector<bool> taken_over(const Backward& backward) {
    noted.clear();
    backward();
    std::vector<bool> result;
    for (const Noted& n : noted) result.push_back(n.taken_over);
    return result;
  }
};

using Answers = std::vector<bool>;

TEST_P(SideStream, AGradientBecomesThatOfALeafAsItIs) {
  Tensor x = leaf();
  EXPECT_EQ(taken_over([&] { NotingDouble::apply(x).sum().backward(); }), Answers{true});
  EXPECT_EQ(x.grad().data_ptr(), noted[0].gradient);
  // Now there is one to add to.
  EXPECT_EQ(taken_over([&] { NotingDouble::apply(x).sum().backward(); }), Answers{false});
  EXPECT_NE(x.grad().data_ptr(), noted[0].gradient);
  x.mutable_grad() = Tensor();
  EXPECT_EQ(taken_over([&] { NotingDouble::apply(x).sum().backward(); }), Answers{true});
}

TEST_P(SideStream, GradientsThatAreReadDoNot) {
  const Tensor x = leaf(), other = leaf();
  const Answers both{false, false};
  EXPECT_EQ(taken_over([&] { (NotingDouble::apply(x) * NotingDouble::apply(x)).sum().backward(); }),
            both);
  const auto used_once_more = [&] { (NotingDouble::apply(other) * other).sum().backward(); };
  EXPECT_EQ(taken_over(used_once_more), Answers{false});
  EXPECT_EQ(taken_over([] { NotingDouble::apply(leaf() * 1).sum().backward(); }), Answers{false});
  EXPECT_EQ(taken_over([] {
              const Tensor y = leaf();
              torch::autograd::grad({NotingDouble::apply(y).sum()}, {y});
            }),
            Answers{false});
  const Tensor twice = leaf();
  EXPECT_EQ(taken_over([&] {
              NotingDouble::apply(twice).square().sum().backward({}, /*retain_graph=*/true,
                                                                 /*create_graph=*/true);
            }),
            Answers{false});
  // Held by the graph of a gradient: a cycle, unless it is cut.
  Tensor(twice).mutable_grad() = Tensor();
}

// Fields of `size` x `size` cells.
struct ChainCase {
  at::Device device;
  std::int64_t size;
};

// Convolutions and norms in turn, as in the branch of a UNet.
class Chain {
 public:
  explicit Chain(const ChainCase& c)
      : type_(c.device.is_cuda() ? at::kBFloat16 : at::kFloat),
        channels_(c.device.is_cuda() ? 64 : 16) {
    at::manual_seed(5);
    const at::TensorOptions there(c.device);
    for (Layer& layer : layers_) {
      layer = {at::randn({channels_}, there), at::randn({channels_}, there),
               at::randn({channels_}, there),
               at::randn({channels_, channels_, 3, 3}, there)
                   .mul(0.05)
                   .to(type_)
                   .contiguous(at::MemoryFormat::ChannelsLast),
               at::randn({channels_}, there).to(type_)};
      for (Tensor* p : layer.all()) p->requires_grad_();
    }
    x_ = at::randn({4, channels_, c.size, c.size}, there).to(type_);
  }

  std::vector<Tensor> leaves() {
    std::vector<Tensor> all;
    for (Layer& layer : layers_) {
      for (const Tensor* p : layer.all()) all.push_back(*p);
    }
    return all;
  }
  Tensor& input() { return x_; }

  // With the parameters as they are, or as results, whose gradients are computed in line.
  Tensor loss(bool as_leaves) const {
    Tensor x = x_;
    for (Layer layer : layers_) {
      if (!as_leaves) {
        for (Tensor* p : layer.all()) *p = *p * 1;
      }
      const ops::Normed normed = ops::norm_activation({.f = kernels::Activation::kGelu,
                                                       .groups = 8,
                                                       .a = x,
                                                       .bias = layer.norm_bias,
                                                       .scale = layer.scale,
                                                       .shift = layer.shift});
      x = ops::convolution(
          normed.out,
          {.weight = layer.weight, .bias = layer.bias, .residual = normed.a, .border = 1});
    }
    return x.to(at::kFloat).square().mean() * 1000;
  }

 private:
  struct Layer {
    Tensor norm_bias, scale, shift, weight, bias;
    std::vector<Tensor*> all() { return {&norm_bias, &scale, &shift, &weight, &bias}; }
  };
  at::ScalarType type_;
  std::int64_t channels_;
  std::array<Layer, 6> layers_;
  Tensor x_;
};

std::vector<Tensor> take_gradients(const std::vector<Tensor>& leaves) {
  std::vector<Tensor> grads;
  for (Tensor leaf : leaves) {
    grads.push_back(leaf.grad());
    leaf.mutable_grad() = Tensor();
  }
  return grads;
}

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

// On a GPU a tile of the convolutions, which racecheck can follow, and many.
std::vector<ChainCase> chain_cases() {
  std::vector<ChainCase> all;
  for (const at::Device& device : test_devices()) {
    for (const std::int64_t size : device.is_cuda() ? std::vector{16, 64} : std::vector{6}) {
      all.push_back({device, size});
    }
  }
  return all;
}

class SideStreamOfAChain : public testing::TestWithParam<ChainCase> {};

TEST_P(SideStreamOfAChain, GradientsBesideBackwardAreThoseInLine) {
  Chain chain(GetParam());
  chain.loss(/*as_leaves=*/false).backward();
  const std::vector<Tensor> expected = take_gradients(chain.leaves());
  for (const Tensor& g : expected) EXPECT_GT(g.abs().max().item<double>(), 0);
  for (int repeat = 0; repeat < 3; ++repeat) {
    chain.loss(/*as_leaves=*/true).backward();
    expect_equal(take_gradients(chain.leaves()), expected);
  }
  // The second time they are added.
  for (int part = 0; part < 2; ++part) chain.loss(/*as_leaves=*/true).backward();
  std::vector<Tensor> doubled;
  for (const Tensor& g : expected) doubled.push_back(2 * g);
  expect_equal(take_gradients(chain.leaves()), doubled);
}

TEST_P(SideStreamOfAChain, RecordedGradientsAreThoseInLine) {
  Chain chain(GetParam());
  const std::vector<Tensor> leaves = chain.leaves();
  std::vector<Tensor> kept;
  for (const Tensor& leaf : leaves) kept.push_back(at::zeros_like(leaf));
  StepGraph graph(GetParam().device);
  for (int call = 0; call < StepGraph::kWarmups + 3; ++call) {
    chain.input().mul_(-1);  // another input in every call, at the same place
    graph.run([&] {
      chain.loss(/*as_leaves=*/true).backward();
      const std::vector<Tensor> grads = take_gradients(leaves);
      for (std::size_t i = 0; i < grads.size(); ++i) kept[i].copy_(grads[i]);
    });
    chain.loss(/*as_leaves=*/false).backward();
    expect_equal(kept, take_gradients(leaves));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SideStreamOfAChain, testing::ValuesIn(chain_cases()),
                         [](const auto& test) {
                           return device_name(test.param.device) + std::to_string(test.param.size);
                         });

#ifdef SLIFT_WITH_CUDA

// x, whose backward copies the gradient to another place beside the rest, after a while.
struct SlowIdentity : torch::autograd::Function<SlowIdentity> {
  static inline std::vector<std::weak_ptr<int>> tokens;  // one for each body, which holds it
  static inline std::vector<std::int64_t> held;  // how many, before and after each body was started
  static inline bool fails = false;
  static inline bool on_another_stream = false;

  static std::int64_t count_held() {
    return std::count_if(tokens.begin(), tokens.end(), [](const auto& t) { return !t.expired(); });
  }
  static Tensor forward(AutogradContext*, const Tensor& x, const Tensor& leaf) { return x + leaf; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    const Tensor from = grads[0].contiguous(), to = at::zeros_like(from);
    const auto token = std::make_shared<int>();
    held.push_back(count_held());
    tokens.push_back(token);
    const auto main = c10::cuda::getCurrentCUDAStream();
    ops::run_beside_backward(from.device(), [token, from, main, target = to.data_ptr<float>()] {
      constexpr std::int64_t kCycles = 10'000'000;  // some milliseconds
      on_another_stream = c10::cuda::getCurrentCUDAStream() != main;
      Tensor result = at::from_blob(target, from.sizes(), from.options());
      at::cuda::sleep(kCycles);
      result.copy_(from);
    });
    held.push_back(count_held());
    TORCH_CHECK(!fails, "as the test wants it");
    return {grads[0], to};
  }
};

// For CUDA alone: on the CPU there are no streams.
TEST_P(SideStream, BodiesRunBesideAndAreJoinedAtTheNextButOneAndAtTheEnd) {
  if (!GetParam().is_cuda()) return;
  const auto there = at::TensorOptions(GetParam());
  const Tensor x = at::zeros({1000}, there).requires_grad_();
  for (const bool fails : {false, true, false}) {
    std::vector<Tensor> leaves;
    for (int i = 0; i < 4; ++i) leaves.push_back(at::zeros({1000}, there).requires_grad_());
    const Tensor weights = at::arange(1000, there.dtype(at::kFloat));
    SlowIdentity::fails = fails;
    SlowIdentity::held.clear();
    const auto backward = [&] {
      Tensor y = x;
      for (const Tensor& leaf : leaves) y = SlowIdentity::apply(y, leaf);
      (y * weights).sum().backward();
    };
    if (fails) {
      EXPECT_THROW(backward(), c10::Error);
    } else {
      backward();
      // What the main stream reads now is what the side stream wrote.
      for (const Tensor& leaf : leaves) EXPECT_TRUE(leaf.grad().equal(weights));
      // Even after a pass that failed nothing is held at first.
      EXPECT_EQ(SlowIdentity::held, (std::vector<std::int64_t>{0, 1, 1, 2, 2, 2, 2, 2}));
      EXPECT_EQ(SlowIdentity::count_held(), 0);
    }
    EXPECT_TRUE(SlowIdentity::on_another_stream);
  }
}

#endif

INSTANTIATE_TEST_SUITE_P(Devices, SideStream, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
