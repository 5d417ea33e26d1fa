#include "tensor/step_graph.h"

#include <gtest/gtest.h>

#include "tensor/test_devices.h"

namespace slift {
namespace {

// x <- 2 x + step, with the step read from the device.
TEST(StepGraph, EveryCallDoesTheWorkOnce) {
  for (const at::Device& device : test_devices()) {
    Tensor x = at::ones({3}, at::TensorOptions(device));
    Tensor step = at::zeros({}, x.options());
    StepGraph graph(device);
    float expected = 1;
    for (int i = 0; i < 2 * StepGraph::kWarmups + 2; ++i) {
      graph.run([&] {
        const Tensor twice = 2 * x;
        x.copy_(twice + step);
        step.add_(1);
      });
      expected = 2 * expected + static_cast<float>(i);
      EXPECT_EQ(x[1].item<float>(), expected) << device << ", call " << i;
    }
  }
}

TEST(StepGraph, SeesWhatIsWrittenToItsInputsBetweenCalls) {
  for (const at::Device& device : test_devices()) {
    Tensor in = at::zeros({}, at::TensorOptions(device)), out = at::zeros_like(in);
    StepGraph graph(device);
    for (int i = 0; i < 8; ++i) {
      in.fill_(i);
      graph.run([&] { out.copy_(in + 1); });
      EXPECT_EQ(out.item<float>(), static_cast<float>(i + 1)) << device << ", call " << i;
    }
  }
}

}  // namespace
}  // namespace slift
