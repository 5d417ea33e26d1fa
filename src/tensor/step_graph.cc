#include "tensor/step_graph.h"

#include <algorithm>

#ifdef SLIFT_WITH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "tensor/stream_order.h"
#endif

namespace slift {

#ifdef SLIFT_WITH_CUDA

// Recording needs a stream other than the default one, and the warm-ups must see the same. Of high
// priority: what the body runs beside it on other streams only fills the gaps.
struct StepGraph::Record {
  explicit Record(const at::Device& device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())) {}

  template <typename Body>
  void on_side_stream(const Body& body) {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(stream.device_index());
    order(current, stream);
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      body();
    }
    order(stream, current);
  }

  c10::cuda::CUDAStream stream;
  at::cuda::CUDAGraph graph;
};

StepGraph::StepGraph(const at::Device& device)
    : device_(device), record_(device.is_cuda() ? std::make_unique<Record>(device) : nullptr) {}

void StepGraph::run(const std::function<void()>& body) {
  if (!record_) return body();
  const c10::cuda::CUDAGuard device(device_);
  if (calls_ < kWarmups) {
    record_->on_side_stream(body);
  } else {
    if (calls_ == kWarmups) {
      record_->on_side_stream([&] {
        // The memory of the warm-ups would otherwise be held beside the graph's own.
        c10::cuda::CUDACachingAllocator::emptyCache();
        record_->graph.capture_begin();
        try {
          body();
        } catch (...) {
          try {
            record_->graph.capture_end();  // or the allocator would record from now on
          } catch (...) {
            // A recording that was broken cannot end well; what broke it is thrown.
          }
          throw;
        }
        record_->graph.capture_end();
      });
    }
    record_->graph.replay();
  }
  calls_ = std::min(calls_ + 1, kWarmups + 1);
}

#else

struct StepGraph::Record {};

StepGraph::StepGraph(const at::Device& device) : device_(device) {}

void StepGraph::run(const std::function<void()>& body) { body(); }

#endif

StepGraph::~StepGraph() = default;

}  // namespace slift
