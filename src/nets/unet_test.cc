#include "nets/unet.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/testing.h"
#include "nets/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

using nlohmann::json;

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

NetConfig config(std::vector<std::int64_t> widths, const std::string& padding = "zeros",
                 std::int64_t label_width = 512) {
  NetConfig net;
  net.kind = "unet";
  net.widths = std::move(widths);
  net.padding = padding;
  net.label_width = label_width;
  return net;
}

// A net and inputs of tests/golden/unet_golden.py.
class UnetGoldenCase {
 public:
  UnetGoldenCase(const json& values, at::ScalarType type, at::Device device)
      : values_(values), net_(config_of(values), shape_of(values)) {
    torch::NoGradGuard no_grad;
    net_.to(at::kDouble);
    std::int64_t k = 1;
    for (auto& item : net_.named_parameters()) {
      Tensor& p = item.value();
      const Tensor bits =
          (at::arange(k, k + p.numel(), at::kLong) * 2654435761).remainder(std::int64_t{1} << 32);
      const Tensor u = bits.to(at::kDouble).mul(0x1p-31).sub(1).view_as(p);
      const double fan_in = static_cast<double>(p.numel()) / static_cast<double>(p.size(0));
      p.copy_(p.dim() > 1 ? u * std::sqrt(3 / fan_in)
                          : u / 4 + (item.key().ends_with("scale") ? 1 : 0));
      k += p.numel();
    }
    net_.to(device, type);
    const BackboneShape& shape = net_.shape();
    const auto batch = values.at("batch").get<std::int64_t>();
    std::vector<std::int64_t> sizes = {batch, shape.window};
    sizes.insert(sizes.end(), shape.state.begin(), shape.state.end());
    window_ = (0.3 * (count_up(sizes) - 1)).cos().to(device, type).requires_grad_();
    label_ = (0.7 * count_up({batch, shape.label_dimension})).sin();
    label_ = label_.to(device, type).requires_grad_();
  }

  Tensor forward() { return net_.forward(window_, label_); }
  // sum_k cos(0.2 k) output[k]
  Tensor loss(const Tensor& output) const {
    return (output.flatten() * (0.2 * at::arange(output.numel(), at::kDouble)).cos().to(output))
        .sum();
  }
  // The parameter of this name, or the input "window" or "label".
  Tensor find(const std::string& name) {
    if (name == "window") return window_;
    return name == "label" ? label_ : net_.named_parameters()[name];
  }
  // All parameters and inputs.
  std::vector<Tensor> leaves() {
    std::vector<Tensor> all = net_.parameters();
    all.push_back(window_);
    if (label_.numel() > 0) all.push_back(label_);
    return all;
  }
  std::string name() const {
    return values_.at("padding").get<std::string>() + " " +
           values_.at("activation").get<std::string>() + " " + values_.at("widths").dump();
  }

 private:
  // 1, 2, ... across an array, row-major.
  static Tensor count_up(const std::vector<std::int64_t>& sizes) {
    return at::ones(sizes, at::kDouble).flatten().cumsum(0).view(sizes);
  }
  static NetConfig config_of(const json& values) {
    NetConfig net = config(values.at("widths").get<std::vector<std::int64_t>>(),
                           values.at("padding"), values.at("label_width"));
    net.activation = values.at("activation");
    return net;
  }
  static BackboneShape shape_of(const json& values) {
    return {values.at("state").get<std::vector<std::int64_t>>(), values.at("window"),
            values.at("label")};
  }

  const json& values_;
  Unet net_;
  Tensor window_, label_;
};

const json& golden_cases() {
  static const json cases =
      json::parse(std::ifstream(SLIFT_SOURCE_DIR "/tests/golden/unet_golden.json"));
  return cases;
}

class UnetOnDevice : public testing::TestWithParam<at::Device> {
 protected:
  // Roundings of sums of up to 600 terms of unit scale through some 20 layers. On CUDA, float32
  // convolutions may round their inputs to TF32, 11 bits.
  static std::vector<std::pair<at::ScalarType, double>> types() {
    return {{at::kDouble, 1e-12}, {at::kFloat, GetParam().is_cuda() ? 2e-2 : 1e-5}};
  }
};

TEST_P(UnetOnDevice, ForwardAgreesWithGoldenValues) {
  for (const json& values : golden_cases()) {
    for (const auto& [type, tolerance] : types()) {
      UnetGoldenCase golden(values, type, GetParam());
      const Tensor got = golden.forward().detach().to(at::kCPU, at::kDouble).flatten();
      const auto expected = values.at("output").get<std::vector<double>>();
      const Tensor want = at::tensor(expected, at::kDouble);
      EXPECT_LT(largest(got.slice(0, 0, got.numel(), 3) - want), tolerance) << golden.name();
    }
  }
}

TEST_P(UnetOnDevice, GradientsAgreeWithGoldenValues) {
  for (const json& values : golden_cases()) {
    for (const auto& [type, tolerance] : types()) {
      UnetGoldenCase golden(values, type, GetParam());
      golden.loss(golden.forward()).backward();
      for (const json& entry : values.at("gradients")) {
        const auto name = entry.at("name").get<std::string>();
        const Tensor gradient = golden.find(name).grad().flatten();
        const double want = entry.at("value");
        EXPECT_NEAR(gradient[entry.at("index").get<std::int64_t>()].item<double>(), want,
                    20 * tolerance * std::max(1.0, std::abs(want)))
            << golden.name() << " " << name;
      }
    }
  }
}

// Fused kernels, working weights and four small convolutions for a growing one against float32;
// only on CUDA is bfloat16 a type to compute in.
TEST_P(UnetOnDevice, InBFloat16IsTheSameFunctionWithItsGradients) {
  const at::ScalarType type = GetParam().is_cuda() ? at::kBFloat16 : at::kFloat;
  for (const char* padding : {"zeros", "circular"}) {
    Unet net(config({24, 48}, padding, 32), {{3, 12, 20}, 3, 16});
    net.initialise(1);
    net.to(GetParam());
    const Tensor window = normals({4, 3, 3, 12, 20}, 1).to(GetParam());
    const Tensor label = normals({4, 16}, 2).to(GetParam());
    const auto gradients = [&] {
      std::vector<Tensor> all = {net.forward(window, label)};
      all[0].square().mean().backward();
      const std::vector<Tensor> params = net.parameters(), working = net.weights().working();
      for (std::size_t i = 0; i < params.size(); ++i) {
        all.push_back(at::zeros_like(params[i]));
        for (Tensor leaf : {params[i], working[i]}) {
          if (!leaf.defined() || !leaf.grad().defined()) continue;
          EXPECT_EQ(leaf.grad().scalar_type(), leaf.scalar_type());
          all.back() += leaf.grad();
          leaf.mutable_grad() = Tensor();
        }
      }
      return all;
    };
    const std::vector<Tensor> full = gradients();
    net.set_compute_type(type);
    const std::vector<Tensor> reduced = gradients();
    for (std::size_t i = 0; i < full.size(); ++i) {
      const double error = root_mean_square(reduced[i].detach() - full[i].detach());
      EXPECT_LE(error, 4e-2 * root_mean_square(full[i].detach())) << padding << " " << i;
    }
  }
}

TEST_P(UnetOnDevice, AllFormsOfTheWeightsFollowTheParameters) {
  for (const char* padding : {"zeros", "circular"}) {
    Unet net(config({24, 48}, padding, 32), {{3, 12, 20}, 3, 16});
    net.initialise(1);
    net.to(GetParam());
    net.set_compute_type(at::kBFloat16);
    const Tensor window = normals({4, 3, 3, 12, 20}, 1).to(GetParam());
    const Tensor label = normals({4, 16}, 2).to(GetParam());
    const auto forward = [&](bool with_gradients) {
      const at::AutoGradMode mode(with_gradients);
      return net.forward(window, label).detach();
    };
    EXPECT_TRUE(forward(false).equal(forward(true))) << padding;
    torch::NoGradGuard no_grad;
    for (Tensor& p : net.parameters()) p.dim() == 1 ? p.add_(0.25) : p.mul_(1.25);
    const Tensor after = forward(false);
    EXPECT_TRUE(after.equal(forward(true))) << padding;
    net.set_compute_type(at::kFloat);
    const Tensor expected = forward(false);
    EXPECT_LE(root_mean_square(after - expected), 4e-2 * root_mean_square(expected)) << padding;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, UnetOnDevice, testing::ValuesIn(test_devices()), DeviceName());

TEST(Unet, GradientsAgreeWithDifferences) {
  for (const json& values : golden_cases()) {
    UnetGoldenCase golden(values, at::kDouble, at::kCPU);
    golden.loss(golden.forward()).backward();
    torch::NoGradGuard no_grad;
    // The slope along a random direction in the space of all parameters and inputs.
    const double h = 1e-8;
    double slope = 0;
    std::vector<Tensor> leaves = golden.leaves(), directions;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      directions.push_back(normals(leaves[i].sizes().vec(), i).to(at::kDouble));
      slope += (leaves[i].grad() * directions[i]).sum().item<double>();
    }
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].add_(directions[i], by);
      return golden.loss(golden.forward()).item<double>();
    };
    const double above = moved(h), below = moved(-2 * h);
    // Roundings of some 1e-15 over h. Steps of 1e-6 are too long where norms see few cells.
    EXPECT_NEAR(slope, (above - below) / (2 * h), 1e-7 * std::abs(slope)) << golden.name();
    EXPECT_GT(std::abs(slope), 0.1) << golden.name();
  }
}

TEST(Unet, ParameterCounts) {
  struct Case {
    std::int64_t window, channels;
    std::vector<std::int64_t> widths;
    std::int64_t label, parameters;
  };
  for (const Case& c :
       {Case{3, 1, {128, 256, 512}, 64, 50'546'433}, Case{3, 3, {128, 256, 512}, 256, 50'653'955},
        Case{3, 1, {128, 256, 512, 1024}, 64, 192'152'833},
        Case{3, 1, {64, 128, 256}, 64, 14'083'457}, Case{3, 1, {32, 64, 128}, 64, 4'355'265}}) {
    // Weights are not touched before initialise(): a large net costs addresses, not memory.
    const Unet net(config(c.widths), {{c.channels, 64, 64}, c.window, c.label});
    std::int64_t count = 0;
    for (const Tensor& p : net.parameters()) count += p.numel();
    EXPECT_EQ(count, c.parameters) << json(c.widths).dump() << " " << c.channels;
  }
}

TEST(Unet, WithoutALabelThereIsNothingToEmbedIt) {
  const Unet net(config({8, 16}), {{1, 8, 8}, 1, 0});
  for (const auto& item : net.named_parameters()) {
    EXPECT_EQ(item.key().find("film"), std::string::npos) << item.key();
    EXPECT_EQ(item.key().find("label"), std::string::npos) << item.key();
  }
}

// The largest change of the output when rolling the input is not the same as rolling the output.
double equivariance_error(const std::string& padding, std::int64_t down, std::int64_t right) {
  Unet net(config({8, 16, 16}, padding, 16), {{2, 8, 16}, 2, 3});
  net.initialise(1);
  net.to(at::kDouble);
  torch::NoGradGuard no_grad;
  const Tensor window = normals({2, 2, 2, 8, 16}, 0).to(at::kDouble);
  const Tensor label = normals({2, 3}, 1).to(at::kDouble);
  const Tensor rolled = net.forward(window.roll({down, right}, {3, 4}), label);
  return largest(rolled - net.forward(window, label).roll({down, right}, {2, 3}));
}

TEST(Unet, CircularPaddingCommutesWithShiftsOfTheCoarsestCell) {
  EXPECT_LT(equivariance_error("circular", 4, 0), 1e-13);
  EXPECT_LT(equivariance_error("circular", 0, 4), 1e-13);
  EXPECT_LT(equivariance_error("circular", 4, 12), 1e-13);
  // What would fail: shifts the coarse grid cannot follow, and fields with an edge.
  EXPECT_GT(equivariance_error("circular", 2, 0), 1e-4);
  EXPECT_GT(equivariance_error("zeros", 4, 0), 1e-4);
  EXPECT_GT(equivariance_error("zeros", 0, 4), 1e-4);
}

TEST(Unet, InitialActivationsKeepTheirScale) {
  for (const std::string activation : {"gelu", "silu"}) {
    NetConfig net_config = config({32, 64}, "circular", 128);
    net_config.activation = activation;
    Unet net(net_config, {{2, 16, 16}, 2, 32});
    net.initialise(1);
    torch::NoGradGuard no_grad;
    const Tensor window = normals({8, 2, 2, 16, 16}, 0), label = normals({8, 32}, 1);
    const Tensor out = net.forward(window, label);
    // The last layer is small, a tenth: a new model starts near "next state = last state".
    EXPECT_NEAR(root_mean_square(out), 0.1, 0.03) << activation;
    // The label moves it, but does not drown the window.
    const double by_label = root_mean_square(net.forward(window, label.roll(1, 0)) - out);
    const double by_window = root_mean_square(net.forward(window.roll(1, 0), label) - out);
    EXPECT_GT(by_label, 0.2 * by_window) << activation;
    EXPECT_LT(by_label, by_window) << activation;
  }
}

TEST(UnetBlocks, WorkingWeightsHaveGradientsOfTheirOwn) {
  Weights weights;
  Linear layer(weights, 3, 2, 1);
  layer.initialise(1, 0);
  weights.set_masters(layer.parameters());
  weights.set_type(at::kBFloat16);
  for (const auto& item : layer.named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), at::kFloat) << item.key();  // those are no parameters
  }
  ASSERT_EQ(layer.parameters().size(), 2u);
  const Tensor weight = weights.working()[0], bias = weights.working()[1];
  const Tensor x = normals({4, 3}, 1), factors = normals({4, 2}, 2);
  const auto gradients_of = [&](at::ScalarType type) {
    (layer.forward(x.to(type)) * factors.to(type)).sum().backward();
  };
  gradients_of(at::kBFloat16);
  EXPECT_FALSE(layer.parameters()[0].grad().defined());
  EXPECT_EQ(weight.grad().scalar_type(), at::kBFloat16);
  // Sums of four products of numbers of 8 bits.
  EXPECT_LT(largest(weight.grad().to(at::kFloat) - factors.t().mm(x)), 5e-2);
  EXPECT_LT(largest(bias.grad().to(at::kFloat) - factors.sum(0)), 5e-2);
  // Another type meets the parameters themselves.
  const Tensor before = weight.grad().clone();
  gradients_of(at::kFloat);
  EXPECT_LT(largest(layer.parameters()[0].grad() - factors.t().mm(x)), 1e-6);
  EXPECT_TRUE(weight.grad().equal(before));
  // Brought up to date in place: whoever holds one sees it, and it stays a leaf.
  {
    torch::NoGradGuard no_grad;
    layer.parameters()[0].mul_(3);
  }
  weights.sync();
  EXPECT_TRUE(weight.equal(layer.parameters()[0].to(at::kBFloat16)));
  EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
}

TEST(UnetBlocks, AGrowingConvolutionIsFourSmallOnes) {
  const Tensor x = normals({2, 3, 5, 4}, 1), weight = normals({6, 3, 3, 3}, 2);
  const Tensor grown = at::upsample_nearest2d(x, {10, 8});
  const Tensor small = growing_weight(weight, growth_map());
  EXPECT_LT(largest(ops::interleave(at::conv2d(x, small, {}, 1, 1)) -
                    at::conv2d(grown, weight, {}, 1, 1)),
            1e-5);
  EXPECT_LT(largest(ops::interleave(at::conv2d(ops::pad_circular(x), small)) -
                    at::conv2d(ops::pad_circular(grown), weight)),
            1e-5);
}

TEST(UnetBlocks, ABlockAddsABranchOfUnitScaleAndKeepsChannelsLast) {
  for (const std::string activation : {"gelu", "silu"}) {
    Weights weights;
    Block block(weights, 32, 64, {activation, /*circular=*/true, /*label_width=*/16});
    std::uint64_t index = 0;
    for (const auto& child : block.children()) {
      dynamic_cast<Layer&>(*child).initialise(1, index++);
    }
    const Tensor x = normals({4, 32, 16, 16}, 0).contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor out = block.forward(x, {}, [] { return at::zeros({4, 128}); });
    ASSERT_EQ(out.sizes(), (std::vector<std::int64_t>{4, 64, 16, 16}));
    EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
    // Shortcut and branch have variance 1 each, give or take 10 % for 64 x 288 weights.
    EXPECT_NEAR(out.square().mean().item<double>(), 2, 0.2) << activation;
  }
}

TEST(Unet, WhatItCannotTakeIsNamed) {
  const auto error = [](std::vector<std::int64_t> widths, std::vector<std::int64_t> state) {
    return error_of([&] { make_backbone(config(std::move(widths)), {state, 1, 2}); });
  };
  EXPECT_EQ(error({8, 16, 32}, {1, 4, 4}), "");
  EXPECT_EQ(error({8}, {1, 5, 7}), "");
  EXPECT_EQ(error({8, 16}, {2}), "net.kind = unet goes with fields, the data have vector states");
  EXPECT_EQ(error({}, {1, 8, 8}), "net.widths must name 1 to 16 levels, got 0");
  EXPECT_EQ(error(std::vector<std::int64_t>(70, 8), {1, 8, 8}),
            "net.widths must name 1 to 16 levels, got 70");
  EXPECT_EQ(error({8, 20}, {1, 8, 8}), "net.widths must be multiples of 8, got 20");
  const std::string rule =
      "net.widths names 3 levels: height and width of the fields must be "
      "multiples of 4, got ";
  EXPECT_EQ(error({8, 8, 8}, {1, 8, 6}), rule + "8 x 6");
  EXPECT_EQ(error({8, 8, 8}, {1, 6, 8}), rule + "6 x 8");
}

}  // namespace
}  // namespace slift
