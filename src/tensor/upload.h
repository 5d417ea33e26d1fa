// From the host to tensors on the device, without waiting.
#pragma once

#include <cstring>
#include <span>

#include "tensor/torch_compat.h"

namespace slift {

// Writes `values` over the elements of `to`, which is contiguous and of as many bytes. A GPU gets
// them behind the work it was given before, through pinned memory that LibTorch uses again only
// after the copy; `values` may change at once.
template <typename T>
void upload(std::span<const T> values, Tensor& to) {
  TORCH_CHECK(to.is_contiguous() && to.nbytes() == values.size_bytes(),
              "upload: expected a contiguous tensor of ", values.size_bytes(), " bytes");
  if (values.empty()) return;
  const Tensor staged =
      to.is_cuda() ? at::empty(to.sizes(), to.options().device(at::kCPU).pinned_memory(true)) : to;
  std::memcpy(staged.data_ptr(), values.data(), values.size_bytes());
  if (to.is_cuda()) to.copy_(staged, /*non_blocking=*/true);
}

}  // namespace slift
