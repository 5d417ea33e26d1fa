// Work that need not wait for what the current stream of a GPU is given next.
#pragma once

#include <functional>
#include <optional>

#include "tensor/torch_compat.h"
#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace slift {

// Calls `body` with another stream of the device as the current one, where it begins when the
// stream that was current has done what it was given so far. For work without gradients. While a
// stream is being recorded, this is part of it. On the CPU `body` is just called.
//
// Memory that `body` allocates may be used and given back anywhere after join(): the next one to
// use that stream waits first.
class Beside {
 public:
  Beside(const at::Device& device, const std::function<void()>& body);
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside();

  // The stream that was current waits until it is done. The host does not.
  void join();

 private:
#ifdef SLIFT_WITH_CUDA
  std::optional<c10::cuda::CUDAStream> main_, side_;  // none once they are joined
#endif
};

}  // namespace slift
