#include "benchmarks/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "benchmarks/ceilings.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

TEST(Measure, MedianIsTheMiddle) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({9, 1, 2, 4}), 3);
}

TEST(Measure, TimeIsThatOfOneCall) {
  int calls = 0;
  double ms = 0;
  const double all = 1000 * seconds_of(at::kCPU, [&] {
                       ms = milliseconds_per_call(at::kCPU, 4, 3, [&] {
                         ++calls;
                         std::this_thread::sleep_for(std::chrono::milliseconds(5));
                       });
                     });
  EXPECT_EQ(calls, 12);
  EXPECT_GE(ms, 5);
  EXPECT_LE(4 * ms, all);  // the median repeat is shorter than all three
}

TEST(Measure, MemoryOnlyGrows) {
  constexpr std::int64_t kBytes = 64 << 20;
  for (const at::Device& device : test_devices()) {
    at::ones({1}, device);  // a GPU's memory is counted from the first tensor on
    const std::int64_t before = peak_memory(device);
    {
      const Tensor block = at::ones({before + kBytes}, at::TensorOptions(at::kByte).device(device));
    }
    EXPECT_GE(peak_memory(device), before + kBytes);
  }
}

// No machine of this age is outside of these bounds by half; a forgotten factor is.
TEST(Measure, CeilingsArePlausible) {
  for (const at::Device& device : test_devices()) {
    const bool gpu = device.is_cuda();
    const Ceilings ceilings = measure_ceilings(device, gpu ? at::kBFloat16 : at::kFloat);
    EXPECT_GT(ceilings.copy, gpu ? 3e11 : 2e8);
    EXPECT_LT(ceilings.copy, gpu ? 2e13 : 2e12);
    EXPECT_GT(ceilings.gemm, gpu ? 3e13 : 5e8);
    EXPECT_LT(ceilings.gemm, gpu ? 1e16 : 5e13);
  }
}

}  // namespace
}  // namespace slift
