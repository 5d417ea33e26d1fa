#include "benchmarks/ceilings.h"

#include <c10/core/InferenceMode.h>

#include "benchmarks/measure.h"

namespace slift {

double copy_ceiling(const at::Device& device) {
  const c10::InferenceMode inference;
  const std::int64_t bytes = device.is_cuda() ? std::int64_t{1} << 30 : 64 << 20;
  const Tensor from = at::randn({bytes / 4}, device), to = at::empty_like(from);
  const double ms = kernel_milliseconds(device, [&] { to.copy_(from); });
  return 2e3 * static_cast<double>(bytes) / ms;
}

double gemm_ceiling(const at::Device& device, at::ScalarType type) {
  const c10::InferenceMode inference;
  const std::int64_t n = device.is_cuda() ? 8192 : 1024;
  const Tensor a = at::randn({n, n}, device).to(type), b = at::randn({n, n}, device).to(type);
  Tensor c = at::empty_like(a);
  const double ms = kernel_milliseconds(device, [&] { at::mm_out(c, a, b); });
  const auto size = static_cast<double>(n);
  return 2e3 * size * size * size / ms;
}

Ceilings measure_ceilings(const at::Device& device, at::ScalarType type) {
  return {copy_ceiling(device), gemm_ceiling(device, type)};
}

}  // namespace slift
