// Training batches on the training device, in the sampler's order.
//
// Data that fit on a GPU are kept there and gathered by index. Otherwise batches are assembled on
// the host; for a GPU in pinned memory that is copied while the GPU still works on the steps
// before.
#pragma once

#include <memory>

#include "data/sampler.h"
#include "tensor/torch_compat.h"

namespace slift {

struct DeviceBatch {
  Tensor window;      // [B, m, state...]
  Tensor next;        // [B, state...]
  Tensor transition;  // [B] int64
};

// What a batch is assembled from, on the device: states, or where the device's data have them.
struct StagedBatch {
  Tensor window;      // [B, m, state...], or their rows [B, m] int64
  Tensor next;        // [B, state...], or their rows [B] int64
  Tensor transition;  // [B] int64
};

struct FeedLimits {
  std::int64_t host_bytes = 0;    // of trajectories in memory; larger data are streamed
  std::int64_t device_bytes = 0;  // of trajectories kept on the GPU; larger data stay on the host
};

class BatchFeed {
 public:
  // Uses the first `members` trajectories of `reader`, which must outlive the feed.
  BatchFeed(const TrajectoryReader& reader, std::int64_t members, std::int64_t window,
            std::uint64_t seed, const FeedLimits& limits, const at::Device& device);
  ~BatchFeed();

  // A batch is made in two calls. stage() brings what the host knows of the transitions at
  // positions first .. first+count-1 of the random order to the device. It does not wait for the
  // device, unless that has yet to receive kAhead batches of states: a host that is faster must not
  // fill its memory with them. Tensors that `to` has from a batch of the same size are filled anew,
  // where they are. assemble() works on the device alone and can be recorded
  // (tensor/step_graph.h); it takes the rows begin .. begin+count-1 of what was staged and may
  // share their memory.
  void stage(std::int64_t first, std::int64_t count, StagedBatch& to);
  DeviceBatch assemble(const StagedBatch& staged, std::int64_t begin, std::int64_t count) const;
  static constexpr int kAhead = 2;

  // Both at once.
  DeviceBatch get(std::int64_t first, std::int64_t count);

  const TransitionSampler& sampler() const { return sampler_; }
  bool on_gpu() const { return resident_.defined(); }

 private:
  class Backlog;
  void stage_rows(std::int64_t first, std::int64_t count, StagedBatch& to) const;

  const TrajectoryReader& reader_;
  TransitionSampler sampler_;
  std::int64_t window_;
  at::Device device_;
  Tensor resident_;  // [members * steps, state...] on the GPU, or undefined
  Batch host_;
  std::unique_ptr<Backlog> backlog_;  // of states on their way to the GPU
};

}  // namespace slift
