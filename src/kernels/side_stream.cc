#include "kernels/side_stream.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>

#ifdef SLIFT_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>

#include <memory>
#include <utility>

#include "tensor/stream_order.h"
#endif

namespace slift::ops {

bool becomes_the_gradient(const Tensor& input) {
  // Only leaves have one. The functions that `input` goes into hold it: one of them called us.
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(input);
  return accumulator && accumulator.use_count() == 2 && !input.grad().defined() &&
         !at::GradMode::is_enabled();
}

#ifdef SLIFT_WITH_CUDA

namespace {

using c10::cuda::CUDAStream;

// From the current stream to a side stream and back. The backward pass owns it.
class Branch {
 public:
  Branch(const CUDAStream& side, std::function<void()> body)
      : main_(c10::cuda::getCurrentCUDAStream(side.device_index())),
        side_(side),
        body_(std::move(body)) {}
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;
  ~Branch() {
    try {
      join();
    } catch (...) {  // CUDA has failed, and said so to others
    }
  }

  void run() {
    order(main_, side_);
    const c10::cuda::CUDAStreamGuard guard(side_);
    body_();
    done_.record(side_);
  }

  // Does nothing the second time.
  void join() {
    if (!body_) return;
    if (!done_.isCreated()) done_.record(side_);  // the body has thrown
    done_.block(main_);
    body_ = nullptr;
  }

  // With the stream of whoever called backward().
  void join_with_caller() {
    join();
    order(main_, c10::cuda::getCurrentCUDAStream(main_.device_index()));
  }

 private:
  CUDAStream main_, side_;
  std::function<void()> body_;  // null once it is joined
  at::cuda::CUDAEvent done_;
};

}  // namespace

#endif

void run_beside_backward(const at::Device& device, std::function<void()> body) {
  if (!device.is_cuda()) return body();
#ifdef SLIFT_WITH_CUDA
  thread_local std::weak_ptr<Branch> last, last_but_one;
  if (const auto earlier = last_but_one.lock()) earlier->join();
  const auto branch = std::make_shared<Branch>(side_stream(device.index()), std::move(body));
  torch::autograd::Engine::get_default_engine().queue_callback(
      [branch] { branch->join_with_caller(); });
  last_but_one = std::exchange(last, branch);
  branch->run();
#endif
}

}  // namespace slift::ops
