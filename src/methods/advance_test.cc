// Steps of a rollout in place, by nets that have a way of their own to do it.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "methods/transition_model.h"
#include "nets/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

struct AdvanceCase {
  const char* padding;
  const char* output;
  std::int64_t window, channels;
};

ModelSpec advance_spec(const AdvanceCase& c) {
  ModelSpec spec;
  spec.net.kind = "unet";
  spec.net.window = c.window;
  spec.net.output = c.output;
  spec.net.padding = c.padding;
  spec.net.widths = {8};
  spec.net.label_width = 16;
  spec.state_shape = {c.channels, 5, 7};
  spec.method.lifting.dimension = 3;
  for (std::int64_t i = 0; i < c.channels; ++i) {
    const auto x = static_cast<float>(i);
    spec.normaliser.mean.push_back(0.3f - x);
    spec.normaliser.std.push_back(1.5f + x);
    spec.normaliser.delta_std.push_back(0.7f + 0.2f * x);
  }
  return spec;
}

class AdvanceOnDevice : public testing::TestWithParam<at::Device> {};

TEST_P(AdvanceOnDevice, IsForwardAndAShift) {
  torch::NoGradGuard no_grad;
  constexpr std::int64_t kRows = 2;
  const AdvanceCase cases[] = {{"zeros", "residual", 1, 1},
                               {"zeros", "direct", 3, 3},
                               {"circular", "residual", 3, 3},
                               {"circular", "direct", 1, 3}};
  for (const AdvanceCase& c : cases) {
    TransitionModel model(advance_spec(c));
    model.backbone().initialise(1);
    model.to(GetParam());
    model.set_precision(GetParam().is_cuda() ? "bf16" : "fp32");
    const Tensor start = normals({kRows, c.window, c.channels, 5, 7}, 0).to(GetParam());
    const Tensor window = start.clone();
    // The second step shows that the first left everything in its place.
    for (std::uint64_t step = 1; step <= 2; ++step) {
      const Tensor label = normals({kRows, 3}, step).to(GetParam());
      const Tensor before = window.clone(), next = model.forward(before, label);
      model.advance(window, label);
      EXPECT_TRUE(at::equal(window, at::cat({before.slice(1, 1), next.unsqueeze(1)}, 1)))
          << c.padding << " " << c.output << " window " << c.window << " step " << step;
    }
    EXPECT_FALSE(at::equal(window.select(1, -1), start.select(1, -1)));
  }
}

TEST_P(AdvanceOnDevice, ChecksShapes) {
  torch::NoGradGuard no_grad;
  TransitionModel model(advance_spec({"zeros", "residual", 2, 1}));
  model.backbone().initialise(1);
  model.to(GetParam());
  const at::TensorOptions on_device = GetParam();
  const Tensor window = at::zeros({2, 2, 1, 5, 7}, on_device), label = at::zeros({2, 3}, on_device);
  EXPECT_NO_THROW(model.advance(window, label));
  EXPECT_THROW(model.advance(window.narrow(1, 0, 1), label), c10::Error);
  EXPECT_THROW(model.advance(window, label.narrow(0, 0, 1)), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, AdvanceOnDevice, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
