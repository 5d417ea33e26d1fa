// Work that a GPU was given and the host does not wait for. On the CPU nothing is ever under way.
#pragma once

#include <functional>
#include <optional>

#include "tensor/torch_compat.h"

namespace slift {

// A function that returns when the device has done what its current stream was given so far; empty
// on the CPU.
std::function<void()> arrival(const at::Device& device);

// Copies from a device to the host on a stream of their own: behind what the current stream was
// given before them, beside what it is given after.
class HostCopies {
 public:
  explicit HostCopies(const at::Device& device);

  // to <- from, one shape and type, both contiguous; `from` is on the device and may be dropped at
  // once, `to` on the host. From a GPU to pinned memory the copy is only queued.
  void copy(const Tensor& from, const Tensor& to) const;
  // As slift::arrival(), for all copies so far.
  std::function<void()> arrival() const;

 private:
  std::optional<c10::Stream> stream_;  // none on the CPU
};

}  // namespace slift
