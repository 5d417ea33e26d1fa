#include "tensor/runtime.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>
#include <omp.h>
#include <torch/cuda.h>
#ifdef SLIFT_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>

#include "core/errors.h"

namespace slift {
namespace {

// OpenBLAS's own controls, found at run time: slift links LibTorch, not a BLAS.
template <typename F>
F* find_symbol(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

constexpr int kPthreads = 1, kOpenMp = 2;  // values of openblas_get_parallel()

int openblas_parallel() {
  auto* query = find_symbol<int()>("openblas_get_parallel");
  return query != nullptr ? query() : 0;
}

}  // namespace

at::Device resolve_device(const std::string& name, [[maybe_unused]] int index) {
  if (name == "cpu") return at::kCPU;
  require(name == "cuda", "device must be cpu or cuda, got {}", name);
#ifndef SLIFT_WITH_CUDA
  fail("device cuda: this slift was built without CUDA");
#else
  require(torch::cuda::is_available(), "device cuda: no usable GPU on this machine");
  const auto count = static_cast<int>(torch::cuda::device_count());
  require(index < count, "device cuda: GPU {} is asked for (one for each rank), there are {}",
          index, count);
  at::globalContext().setDeterministicCuDNN(true);
  allow_tf32(false);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device.index());
  require(gpu.major == 9 && gpu.minor == 0,
          "device cuda: slift's kernels are for Hopper GPUs (H100, H200, compute capability 9.0), "
          "this is {} ({}.{})",
          gpu.name, gpu.major, gpu.minor);
  c10::cuda::set_device(device.index());
  return device;
#endif
}

void allow_tf32(bool allowed) {
  at::globalContext().setAllowTF32CuDNN(allowed);
  at::globalContext().setAllowTF32CuBLAS(allowed);
}

std::string describe_device([[maybe_unused]] const at::Device& device) {
#ifdef SLIFT_WITH_CUDA
  if (device.is_cuda()) {
    return std::string("cuda ") + at::cuda::getDeviceProperties(device.index())->name;
  }
#endif
  return "cpu";
}

bool multiplies_fp8([[maybe_unused]] const at::Device& device) {
#ifdef SLIFT_WITH_CUDA
  if (device.is_cuda()) {
    const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device.index());
    return gpu.major > 8 || (gpu.major == 8 && gpu.minor >= 9);
  }
#endif
  return false;
}

void set_threads(std::int64_t threads) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const char* const told = std::getenv("OMP_NUM_THREADS");
  const std::int64_t otherwise = told != nullptr ? std::strtol(told, nullptr, 10) : 0;
  const int count = static_cast<int>(threads > 0 ? threads : otherwise > 0 ? otherwise : cores);
  at::set_num_threads(count);
  if (openblas_parallel() == kPthreads) {
    if (auto* set = find_symbol<void(int)>("openblas_set_num_threads")) set(count);
  }
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

namespace {

// OpenBLAS with threads of its own has one setting for the whole process.
std::mutex serial_mutex;
int serial_guards = 0, openblas_threads = 0;

}  // namespace

SerialMath::SerialMath() : threads_(at::get_num_threads()) {
  // LibTorch has set up this thread now and will not change the number again.
  omp_set_num_threads(1);
  if (openblas_parallel() != kPthreads) return;
  const std::lock_guard lock(serial_mutex);
  if (serial_guards++ > 0) return;
  openblas_threads = find_symbol<int()>("openblas_get_num_threads")();
  find_symbol<void(int)>("openblas_set_num_threads")(1);
}

SerialMath::~SerialMath() {
  omp_set_num_threads(threads_);
  if (openblas_parallel() != kPthreads) return;
  const std::lock_guard lock(serial_mutex);
  if (--serial_guards > 0) return;
  find_symbol<void(int)>("openblas_set_num_threads")(openblas_threads);
}

BlasInfo inspect_blas() {
  BlasInfo info;
  if (auto* config = find_symbol<char*()>("openblas_get_config")) {
    const int parallel = openblas_parallel();
    info.name = fmt::format("{} ({})", config(),
                            parallel == kOpenMp     ? "OpenMP"
                            : parallel == kPthreads ? "pthreads"
                                                    : "serial");
  } else {
    info.name = at::hasMKL() ? "MKL" : "unknown, not OpenBLAS";
  }
  constexpr std::int64_t n = 512;
  const Tensor a = at::ones({n, n}), b = at::ones({n, n});
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor c = at::mm(a, b);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  info.gemm_gflops = 2.0 * n * n * n / best * 1e-9;
  info.slow = info.gemm_gflops < 8;  // the reference BLAS gives 2 to 4 on any current core
  return info;
}

}  // namespace slift
