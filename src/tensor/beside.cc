#include "tensor/beside.h"

#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>

#include "tensor/stream_order.h"
#endif

namespace slift {

#ifdef SLIFT_WITH_CUDA

Beside::Beside(const at::Device& device, const std::function<void()>& body) {
  if (!device.is_cuda()) {
    body();
    return;
  }
  main_ = c10::cuda::getCurrentCUDAStream(device.index());
  side_ = side_stream(main_->device_index());
  order(*main_, *side_);
  const c10::cuda::CUDAStreamGuard guard(*side_);
  body();
}

void Beside::join() {
  if (!side_) return;
  order(*side_, *main_);
  side_.reset();
}

Beside::~Beside() {
  try {
    join();
  } catch (...) {
    // The GPU has failed, and whoever is on the way out says so.
  }
}

#else

Beside::Beside(const at::Device&, const std::function<void()>& body) { body(); }

Beside::~Beside() = default;

void Beside::join() {}

#endif

}  // namespace slift
