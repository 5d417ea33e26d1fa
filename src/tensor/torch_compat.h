// The only place that knows LibTorch versions differ: 1.13 (Debian 12) to 2.11+ (CUDA 13).
#pragma once

#include <ATen/ATen.h>
#include <torch/version.h>

#include <string>
#include <vector>

#define SLIFT_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||        \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace slift {

using at::Tensor;

// True where at::_fused_adamw_ exists for CUDA tensors with the signature used below.
inline constexpr bool kHasFusedAdamW = SLIFT_TORCH_AT_LEAST(2, 1);

struct AdamWScalars {
  double lr, beta1, beta2, weight_decay, eps;
};

// One fused AdamW step over all tensors (CUDA). `steps` holds one float32 scalar per parameter.
inline void torch_fused_adamw([[maybe_unused]] std::vector<Tensor>& params,
                              [[maybe_unused]] std::vector<Tensor>& grads,
                              [[maybe_unused]] std::vector<Tensor>& first,
                              [[maybe_unused]] std::vector<Tensor>& second,
                              [[maybe_unused]] std::vector<Tensor>& steps,
                              [[maybe_unused]] const AdamWScalars& s) {
#if SLIFT_TORCH_AT_LEAST(2, 1)
  at::_fused_adamw_(params, grads, first, second, /*max_exp_avg_sqs=*/{}, steps, s.lr, s.beta1,
                    s.beta2, s.weight_decay, s.eps, /*amsgrad=*/false, /*maximize=*/false);
#else
  TORCH_CHECK(false, "this LibTorch has no fused AdamW");
#endif
}

// Returns to callers in one call what LibTorch was built against.
inline std::string torch_version() { return TORCH_VERSION; }

}  // namespace slift
