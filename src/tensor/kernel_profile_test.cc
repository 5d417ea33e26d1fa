#include "tensor/kernel_profile.h"

#include <gtest/gtest.h>

#include "core/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

TEST(KernelProfile, NamesLoseWhatSaysNothing) {
  EXPECT_EQ(shorten_kernel_name("_ZN5slift7kernels4cuda12_GLOBAL__N_13addIfLi4EEEvPKT_l"),
            "add<float, 4>");
  EXPECT_EQ(shorten_kernel_name("_ZN2at6native13reduce_kernelILi512ENS0_4MeanIdEEEEvT0_"),
            "reduce_kernel<512, Mean<double> >");
  // A function type among the template arguments has brackets of its own.
  EXPECT_EQ(shorten_kernel_name("_Z3runIFvifEEvPT_"), "run<void (int, float)>");
  EXPECT_EQ(shorten_kernel_name("_ZN5mykit7combineEPf"), "mykit::combine");
  for (const char* plain : {"sm90_xmma_fprop_nhwc(f32)", "", "void f(int)"}) {
    EXPECT_EQ(shorten_kernel_name(plain), plain);
  }
}

TEST(KernelProfile, ListsTheKernelsOfTheWork) {
#ifdef SLIFT_WITH_CUPTI
  for (const at::Device& device : test_devices()) {
    if (!device.is_cuda()) continue;
    const Tensor x = at::randn({1 << 20}, device);
    Tensor y = at::empty_like(x);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second call must not see the first
      const auto kernels = profile_kernels([&] {
        for (int i = 0; i < 3; ++i) at::sin_out(y, x);
      });
      ASSERT_EQ(kernels.size(), 1u);
      EXPECT_EQ(kernels[0].calls, 3);
      EXPECT_NE(kernels[0].name.find("sin"), std::string::npos) << kernels[0].name;
      EXPECT_GT(kernels[0].ms, 0.003);  // 8 MiB each at less than 8 TB/s
      EXPECT_LT(kernels[0].ms, 1);
    }
  }
#else
  const std::string error = error_of([] { profile_kernels([] {}); });
  EXPECT_NE(error.find("CUPTI"), std::string::npos) << error;
#endif
}

}  // namespace
}  // namespace slift
