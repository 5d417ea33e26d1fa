#include "benchmarks/bench_net.h"

#include "core/errors.h"

namespace slift {

NetConfig BenchNet::config() const {
  NetConfig net;
  net.kind = "unet";
  net.window = window;
  net.widths = widths;
  net.padding = padding;
  return net;
}

void check_kernel_profile(const BenchNet& net, const at::Device& device) {
  require(!net.kernels || (kCanProfileKernels && device.is_cuda()),
          "--kernels needs --device cuda and a slift that was built with CUPTI");
}

std::string resolve_precision(const std::string& asked, const at::Device& device) {
  if (asked.empty()) return device.is_cuda() ? "bf16" : "fp32";
  require(asked == "fp32" || device.is_cuda(), "precision {} needs --device cuda", asked);
  return asked;
}

at::ScalarType compute_type(const std::string& precision) {
  return precision == "bf16" || precision == "fp8" ? at::kBFloat16 : at::kFloat;
}

}  // namespace slift
