#include "benchmarks/measure.h"

#include <sys/resource.h>
#include <torch/cuda.h>
#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/interrupt.h"

namespace slift {

void wait_for(const at::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

double seconds_of(const at::Device& device, const std::function<void()>& work) {
  wait_for(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  wait_for(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  TORCH_CHECK(!values.empty(), "median: no values");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double milliseconds_per_call(const at::Device& device, std::int64_t calls, std::int64_t repeats,
                             const std::function<void()>& work) {
  std::vector<double> times;
  for (std::int64_t r = 0; r < repeats; ++r) {
    if (interrupt_requested()) throw Interrupted("bench stopped");
    const double seconds = seconds_of(device, [&] {
      for (std::int64_t i = 0; i < calls; ++i) work();
    });
    times.push_back(1000 * seconds / static_cast<double>(calls));
  }
  return median(times);
}

double kernel_milliseconds(const at::Device& device, const std::function<void()>& kernel) {
  constexpr double kSeconds = 0.02;  // of one repeat
  constexpr double kMostCalls = 100;
  for (int i = 0; i < 3; ++i) kernel();
  const double once = seconds_of(device, kernel);
  const auto calls = static_cast<std::int64_t>(std::ceil(std::min(kMostCalls, kSeconds / once)));
  return milliseconds_per_call(device, calls, 5, kernel);
}

std::int64_t peak_memory([[maybe_unused]] const at::Device& device) {
#ifdef SLIFT_WITH_CUDA
  if (device.is_cuda()) {
    constexpr std::size_t kAllPools = 0;  // large and small blocks together
    return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index())
        .reserved_bytes[kAllPools]
        .peak;
  }
#endif
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace slift
