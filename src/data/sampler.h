// Batches of transitions for training, in a random order that is a pure function of the iteration.
//
// Each epoch visits every transition once. Data within the memory budget are read once and
// shuffled as a whole. Larger data are shuffled in two levels: an epoch walks blocks of
// neighbouring trajectories (64 KiB, or one trajectory) in random order, a pool of them at a time,
// and shuffles the transitions inside the pool.
#pragma once

#include <cstdint>
#include <vector>

#include "data/trajectories.h"

namespace slift {

struct Batch {
  std::vector<std::int64_t> transition;  // [B] trajectory * (steps - 1) + t
  std::vector<float> window;             // [B, m, state], oldest state first
  std::vector<float> next;               // [B, state]
};

// Copies the window of `m` states that ends at step t of `trajectory` [steps, state] to `out`
// [m, state]. Before the start it repeats the first state.
void copy_window(const float* trajectory, std::int64_t state_size, std::int64_t t, std::int64_t m,
                 float* out);

class TransitionSampler {
 public:
  // Uses the first `members` trajectories of `reader`, which must outlive the sampler, and holds
  // at most about `memory_bytes` of them (at least one trajectory).
  TransitionSampler(const TrajectoryReader& reader, std::int64_t members, std::int64_t window,
                    std::uint64_t seed, std::int64_t memory_bytes);

  std::int64_t transitions() const { return members_ * per_trajectory_; }
  std::int64_t pool_members() const { return pool_members_; }

  // The batch of `iteration` (0, 1, ...). `out`'s storage is reused.
  void fill(std::int64_t iteration, std::int64_t batch_size, Batch& out);

 private:
  void load_pool(std::int64_t epoch, std::int64_t pool);

  const TrajectoryReader& reader_;
  std::int64_t members_, window_, per_trajectory_, pool_members_;
  std::uint64_t seed_;
  std::int64_t loaded_epoch_ = -1, loaded_pool_ = -1;
  std::vector<std::int64_t> pool_index_;  // trajectories in the pool
  std::vector<float> pool_;               // [pool members, steps, state]
};

}  // namespace slift
