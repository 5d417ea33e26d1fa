#include "rollout/device_work.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <memory>
#include <thread>

namespace slift {

std::function<void()> arrival(const at::Device& device) {
  if (!device.is_cuda()) return {};
  const auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  // LibTorch before 2.5 cannot wait for a generic event.
  return [event] {
    while (!event->query()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
}

HostCopies::HostCopies(const at::Device& device) {
  if (!device.is_cuda()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void HostCopies::copy(const Tensor& from, const Tensor& to) const {
  if (!stream_) {
    to.copy_(from);
    return;
  }
  c10::Event ready(stream_->device_type());
  ready.record(c10::impl::VirtualGuardImpl(stream_->device_type()).getStream(stream_->device()));
  ready.block(*stream_);
  from.record_stream(*stream_);
  const c10::StreamGuard guard(*stream_);
  to.copy_(from, /*non_blocking=*/true);
}

std::function<void()> HostCopies::arrival() const {
  if (!stream_) return {};
  const c10::StreamGuard guard(*stream_);
  return slift::arrival(stream_->device());
}

}  // namespace slift
