#include "tensor/beside.h"

#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>

#include <map>

#include "tensor/stream_order.h"
#endif

namespace slift {

#ifdef SLIFT_WITH_CUDA

Beside::Beside(const at::Device& device, const std::function<void()>& body) {
  if (!device.is_cuda()) {
    body();
    return;
  }
  thread_local std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  main_ = c10::cuda::getCurrentCUDAStream(device.index());
  const c10::DeviceIndex index = main_->device_index();
  if (!streams.contains(index)) {
    streams.emplace(index, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index));
  }
  side_ = streams.at(index);
  order(*main_, *side_);
  const c10::cuda::CUDAStreamGuard guard(*side_);
  body();
}

void Beside::join() {
  if (!side_) return;
  order(*side_, *main_);
  side_.reset();
}

#else

Beside::Beside(const at::Device&, const std::function<void()>& body) { body(); }

void Beside::join() {}

#endif

}  // namespace slift
