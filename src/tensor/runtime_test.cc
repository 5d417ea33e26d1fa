#include "tensor/runtime.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <thread>

#include "core/errors.h"

namespace slift {
namespace {

class Runtime : public testing::Test {
 protected:
  ~Runtime() override { set_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_F(Runtime, DevicesAreResolved) {
  EXPECT_EQ(resolve_device("cpu"), at::Device(at::kCPU));
  for (const char* bad : {"", "gpu", "CPU", "cuda:0"}) {
    EXPECT_THROW(resolve_device(bad), UserError) << bad;
  }
}

TEST_F(Runtime, CudaIsThereOrRefused) {
#ifdef SLIFT_WITH_CUDA
  if (torch::cuda::is_available()) {
    EXPECT_EQ(resolve_device("cuda"), at::Device(at::kCUDA, 0));
    return;
  }
#endif
  try {
    resolve_device("cuda");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("device cuda"), std::string::npos) << error.what();
  }
}

TEST_F(Runtime, ThreadsAreSet) {
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    EXPECT_EQ(at::get_num_threads(), threads);
  }
  setenv("OMP_NUM_THREADS", "5,2", 1);
  set_threads(0);
  EXPECT_EQ(at::get_num_threads(), 5);
  unsetenv("OMP_NUM_THREADS");
  set_threads(0);
  EXPECT_EQ(at::get_num_threads(), static_cast<int>(std::thread::hardware_concurrency()));
}

// OpenBLAS with its own threads must be told; every other BLAS is left as it is.
TEST_F(Runtime, SerialMathIsSerialAndGoesAway) {
  const auto query = [](const char* name) {
    auto* function = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr ? function() : -1;
  };
  const bool own_threads = query("openblas_get_parallel") == 1;
  set_threads(2);
  const int before = query("openblas_get_num_threads");
  if (own_threads) {
    EXPECT_EQ(before, 2);
  }
  {
    const SerialMath serial;
    EXPECT_EQ(at::get_num_threads(), 1);
    {
      const SerialMath again;
      EXPECT_EQ(at::get_num_threads(), 1);
    }
    EXPECT_EQ(at::get_num_threads(), 1);
    EXPECT_EQ(query("openblas_get_num_threads"), own_threads ? 1 : before);
  }
  EXPECT_EQ(at::get_num_threads(), 2);
  EXPECT_EQ(query("openblas_get_num_threads"), before);
}

TEST_F(Runtime, BlasIsNamedAndMeasured) {
  const BlasInfo info = inspect_blas();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.gemm_gflops, 0.01);
  EXPECT_LT(info.gemm_gflops, 1e6);
  EXPECT_EQ(info.slow, info.gemm_gflops < 8);
}

}  // namespace
}  // namespace slift
