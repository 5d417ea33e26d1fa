#include "training/batch_feed.h"

#include <algorithm>

#include "tensor/upload.h"
#ifdef SLIFT_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#endif

namespace slift {
namespace {

std::vector<std::int64_t> shape_of(std::vector<std::int64_t> head, const TrajectoryInfo& info) {
  head.insert(head.end(), info.state_shape.begin(), info.state_shape.end());
  return head;
}

// Fills `to` with `values`; a tensor that does not fit is replaced.
template <typename T>
void fill_tensor(Tensor& to, const std::vector<T>& values, const std::vector<std::int64_t>& shape,
                 at::ScalarType type, const at::Device& device) {
  if (!to.defined() || to.sizes() != shape) {
    to = at::empty(shape, at::TensorOptions(type).device(device));
  }
  upload(std::span<const T>(values), to);
}

}  // namespace

#ifdef SLIFT_WITH_CUDA

class BatchFeed::Backlog {
 public:
  void wait_for_oldest() { arrived_[next_].synchronize(); }  // at once if there is none yet
  void add_newest() {
    arrived_[next_].record();
    next_ = (next_ + 1) % kAhead;
  }

 private:
  at::cuda::CUDAEvent arrived_[kAhead];
  int next_ = 0;
};

#else

class BatchFeed::Backlog {
 public:
  void wait_for_oldest() {}
  void add_newest() {}
};

#endif

BatchFeed::BatchFeed(const TrajectoryReader& reader, std::int64_t members, std::int64_t window,
                     std::uint64_t seed, const FeedLimits& limits, const at::Device& device)
    : reader_(reader),
      sampler_(reader, members, window, seed, limits.host_bytes),
      window_(window),
      device_(device),
      backlog_(device.is_cuda() ? std::make_unique<Backlog>() : nullptr) {
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

BatchFeed::~BatchFeed() = default;

void BatchFeed::stage_rows(std::int64_t first, std::int64_t count, StagedBatch& to) const {
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
  fill_tensor(to.window, windows, {count, window_}, at::kLong, device_);
  fill_tensor(to.next, nexts, {count}, at::kLong, device_);
  fill_tensor(to.transition, transitions, {count}, at::kLong, device_);
}

void BatchFeed::stage(std::int64_t first, std::int64_t count, StagedBatch& to) {
  if (on_gpu()) return stage_rows(first, count, to);
  const TrajectoryInfo& info = reader_.info();
  sampler_.fill(first, count, host_);
  if (backlog_) backlog_->wait_for_oldest();
  fill_tensor(to.window, host_.window, shape_of({count, window_}, info), at::kFloat, device_);
  fill_tensor(to.next, host_.next, shape_of({count}, info), at::kFloat, device_);
  fill_tensor(to.transition, host_.transition, {count}, at::kLong, device_);
  if (backlog_) backlog_->add_newest();
}

DeviceBatch BatchFeed::assemble(const StagedBatch& staged, std::int64_t begin,
                                std::int64_t count) const {
  const Tensor window = staged.window.narrow(0, begin, count);
  const Tensor next = staged.next.narrow(0, begin, count);
  const Tensor transition = staged.transition.narrow(0, begin, count);
  if (!on_gpu()) return {window, next, transition};
  return {
      resident_.index_select(0, window.flatten()).view(shape_of({count, window_}, reader_.info())),
      resident_.index_select(0, next), transition};
}

DeviceBatch BatchFeed::get(std::int64_t first, std::int64_t count) {
  StagedBatch staged;
  stage(first, count, staged);
  return assemble(staged, 0, count);
}

}  // namespace slift
