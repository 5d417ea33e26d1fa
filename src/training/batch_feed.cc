#include "training/batch_feed.h"

#include <algorithm>
#include <cstring>

namespace slift {
namespace {

std::vector<std::int64_t> shape_of(std::vector<std::int64_t> head, const TrajectoryInfo& info) {
  head.insert(head.end(), info.state_shape.begin(), info.state_shape.end());
  return head;
}

// A copy of `values` on the device. To a GPU it goes through pinned memory, which LibTorch reuses
// only after the copy has happened, so nobody waits.
template <typename T>
Tensor upload(const std::vector<T>& values, const std::vector<std::int64_t>& shape,
              at::ScalarType type, const at::Device& device) {
  const Tensor staged = at::empty(shape, at::TensorOptions(type).pinned_memory(device.is_cuda()));
  std::memcpy(staged.data_ptr(), values.data(), values.size() * sizeof(T));
  return staged.to(device, /*non_blocking=*/true);
}

}  // namespace

BatchFeed::BatchFeed(const TrajectoryReader& reader, std::int64_t members, std::int64_t window,
                     std::uint64_t seed, const FeedLimits& limits, const at::Device& device)
    : reader_(reader),
      sampler_(reader, members, window, seed, limits.host_bytes),
      window_(window),
      device_(device) {
  const TrajectoryInfo& info = reader.info();
  const std::int64_t bytes =
      members * info.trajectory_size() * static_cast<std::int64_t>(sizeof(float));
  if (!device.is_cuda() || !sampler_.is_whole() || bytes > limits.device_bytes) return;
  resident_ = at::empty(shape_of({members * info.steps}, info), at::TensorOptions(device));
  for_each_chunk(reader, members, [&](auto first, auto count, std::span<const float> states) {
    const Tensor host = at::from_blob(const_cast<float*>(states.data()),
                                      shape_of({count * info.steps}, info), at::kFloat);
    resident_.narrow(0, first * info.steps, count * info.steps).copy_(host);
  });
}

DeviceBatch BatchFeed::gather(std::int64_t first, std::int64_t count) const {
  const TrajectoryInfo& info = reader_.info();
  std::vector<std::int64_t> transitions, windows, nexts;
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::int64_t k = sampler_.transition_at(i);
    const std::int64_t start = k / (info.steps - 1) * info.steps, t = k % (info.steps - 1);
    transitions.push_back(k);
    for (std::int64_t j = t - window_ + 1; j <= t; ++j) {
      windows.push_back(start + std::max<std::int64_t>(j, 0));
    }
    nexts.push_back(start + t + 1);
  }
  const auto pick = [&](const std::vector<std::int64_t>& index) {
    const auto n = static_cast<std::int64_t>(index.size());
    return resident_.index_select(0, upload(index, {n}, at::kLong, device_));
  };
  return {pick(windows).view(shape_of({count, window_}, info)), pick(nexts),
          upload(transitions, {count}, at::kLong, device_)};
}

DeviceBatch BatchFeed::get(std::int64_t first, std::int64_t count) {
  if (on_gpu()) return gather(first, count);
  const TrajectoryInfo& info = reader_.info();
  sampler_.fill(first, count, host_);
  return {upload(host_.window, shape_of({count, window_}, info), at::kFloat, device_),
          upload(host_.next, shape_of({count}, info), at::kFloat, device_),
          upload(host_.transition, {count}, at::kLong, device_)};
}

}  // namespace slift
