#include "nets/mlp.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "../../tests/golden/mlp_golden.h"
#include "nets/testing.h"

namespace slift {
namespace {

NetConfig config(std::int64_t layers, std::int64_t width, const std::string& activation = "gelu") {
  NetConfig net;
  net.layers = layers;
  net.width = width;
  net.activation = activation;
  return net;
}

// The net of tests/golden/mlp_golden.py.
struct MlpGoldenCase {
  Mlp net;
  Tensor window, label;

  MlpGoldenCase(const std::string& activation, at::ScalarType type)
      : net(config(golden::kMlpLayers, golden::kMlpWidth, activation),
            {{golden::kMlpState}, golden::kMlpWindow, golden::kMlpLabel}) {
    torch::NoGradGuard no_grad;
    net.to(type);
    double k = 1;
    for (Tensor& p : net.parameters()) {
      p.copy_(at::arange(k, k + static_cast<double>(p.numel()), at::kDouble).sin().view_as(p));
      k += static_cast<double>(p.numel());
    }
    window =
        (0.3 * at::arange(golden::kMlpBatch * golden::kMlpWindow * golden::kMlpState, at::kDouble))
            .cos()
            .view({golden::kMlpBatch, golden::kMlpWindow, golden::kMlpState})
            .to(type);
    label = (0.7 * (at::arange(golden::kMlpBatch * golden::kMlpLabel, at::kDouble) + 1))
                .sin()
                .view({golden::kMlpBatch, golden::kMlpLabel})
                .to(type);
  }
};

TEST(Mlp, ForwardAgreesWithGoldenValues) {
  for (const std::string activation : {"gelu", "silu"}) {
    const auto& expected = activation == "gelu" ? golden::kMlpGelu : golden::kMlpSilu;
    // Sums of 8 terms of order 1 through three layers: some ten roundings.
    for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kFloat, 3e-6}}) {
      MlpGoldenCase golden(activation, type);
      const Tensor got = golden.net.forward(golden.window, golden.label).to(at::kDouble);
      for (std::int64_t b = 0; b < golden::kMlpBatch; ++b) {
        for (std::int64_t j = 0; j < golden::kMlpState; ++j) {
          EXPECT_NEAR(got[b][j].item<double>(), expected[b][j], tolerance) << activation;
        }
      }
    }
  }
}

TEST(Mlp, GradientsAgreeWithDifferences) {
  for (const std::string activation : {"gelu", "silu"}) {
    MlpGoldenCase golden(activation, at::kDouble);
    const auto loss = [&] {
      return golden.net.forward(golden.window, golden.label).square().mean();
    };
    loss().backward();
    for (const auto& item : golden.net.named_parameters()) {
      Tensor flat = item.value().detach().view(-1);
      const Tensor gradient = item.value().grad().view(-1);
      for (std::int64_t i = 0; i < flat.numel(); ++i) {
        torch::NoGradGuard no_grad;
        const double kept = flat[i].item<double>(), h = 1e-5;
        flat[i] = kept + h;
        const double above = loss().item<double>();
        flat[i] = kept - h;
        const double below = loss().item<double>();
        flat[i] = kept;
        // Central differences err by h^2 times the third derivative and by 1e-16 / h.
        EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * h), 1e-8)
            << activation << " " << item.key() << " " << i;
      }
    }
  }
}

TEST(Mlp, InitialActivationsKeepTheirScale) {
  // The first layer's inputs have unit scale already, so that its gain starts a slow growth: SiLU
  // reaches 2 after five layers.
  for (const auto& [activation, layers] : {std::pair<std::string, int>{"gelu", 6}, {"silu", 5}}) {
    Mlp net(config(layers, 512, activation), {{2}, 2, 60});
    net.initialise(1);
    const auto params = net.named_parameters();
    Tensor x = normals({256, 64}, 0);
    for (int layer = 0; layer < layers; ++layer) {
      const std::string i = std::to_string(layer);
      x = activate(at::addmm(params["bias" + i], x, params["weight" + i].t()), activation);
      EXPECT_GT(root_mean_square(x), 0.5) << activation << " layer " << layer;
      EXPECT_LT(root_mean_square(x), 2.0) << activation << " layer " << layer;
    }
    // The last layer is small: a new model starts near "next state = last state".
    const Tensor out = net.forward(normals({256, 2, 2}, 1), normals({256, 60}, 2));
    EXPECT_LT(root_mean_square(out), 0.5);
    EXPECT_GT(root_mean_square(out), 0.02);
  }
}

TEST(Mlp, GainsUndoTheActivations) {
  const Tensor z = normals({1 << 20}, 4);
  for (const std::string activation : {"gelu", "silu"}) {
    const double mean_square = activate(z, activation).square().mean().item<double>();
    // The squares have variance about 1.
    EXPECT_NEAR(mean_square * std::pow(activation_gain(activation), 2), 1, 4.0 * 3 / (1 << 10));
  }
}

TEST(Mlp, DrawnWeightsHaveTheVarianceAskedFor) {
  const Tensor weight = at::empty({300, 500});
  draw_weight(weight, 3.0, 1, 0);
  const double n = 300 * 500, variance = 9.0 / 500;
  EXPECT_NEAR(weight.square().mean().item<double>(), variance, 4 * variance * std::sqrt(2 / n));
  EXPECT_NEAR(weight.mean().item<double>(), 0, 4 * std::sqrt(variance / n));
  const Tensor other = at::empty({300, 500});
  draw_weight(other, 3.0, 1, 1);
  EXPECT_FALSE(at::equal(weight, other));
}

}  // namespace
}  // namespace slift
