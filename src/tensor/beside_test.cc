#include "tensor/beside.h"

#include <gtest/gtest.h>

#include "tensor/test_devices.h"

namespace slift {
namespace {

TEST(Beside, ComesAfterWhatWasThereAndBeforeWhatFollowsTheJoin) {
  at::NoGradGuard no_grad;
  for (const at::Device& device : test_devices()) {
    const std::int64_t n = device.is_cuda() ? 2048 : 8;
    Tensor before = at::zeros({n, n}, device), main = at::ones({n, n}, device), side;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 20; ++i) before = at::mm(before, main).fill_(round + 1);
      Beside beside(device, [&] {
        side = before * 2;
        for (int i = 0; i < 20; ++i) side = at::mm(side, main).fill_(2 * round + 2);
        side = side + before;
      });
      const Tensor meanwhile = before + 1;
      beside.join();
      beside.join();  // once more does nothing
      EXPECT_EQ((side + meanwhile).sum().item<double>(),
                static_cast<double>(n * n) * (4 * (round + 1) + 1))
          << device;
    }
  }
}

}  // namespace
}  // namespace slift
