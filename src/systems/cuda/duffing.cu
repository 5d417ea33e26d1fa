#include "systems/cuda/device.h"
#include "systems/cuda/duffing.h"

namespace slift::cuda {
namespace {

__global__ void duffing_kernel(DuffingModel model, std::uint64_t seed, std::int64_t first,
                               std::int64_t branches, std::int64_t count, float* states) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  duffing_path(model, seed, static_cast<std::uint64_t>(first + i),
               static_cast<std::uint64_t>((first + i) / branches), states + i * model.stored * 2);
}

}  // namespace

void simulate_duffing(const DuffingModel& model, std::uint64_t seed, std::int64_t first,
                      std::int64_t branches, std::span<float> states) {
  constexpr std::int64_t kThreads = 64;  // few, so that small batches spread over the device
  const std::int64_t count = static_cast<std::int64_t>(states.size()) / (model.stored * 2);
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  DeviceArray<float> device(states.size());
  duffing_kernel<<<blocks, kThreads>>>(model, seed, first, branches, count, device.data());
  check("duffing");
  device.download(states);
}

}  // namespace slift::cuda
