// Transitions for training, in a random order that is a pure function of the position in it.
//
// Each epoch visits every transition once. Data within the memory budget are read once and
// shuffled as a whole. Larger data are shuffled in two levels: an epoch walks blocks of
// neighbouring trajectories (64 KiB, or one trajectory) in random order, a pool of them at a time,
// and shuffles the transitions inside the pool. While one pool is used, a thread reads the next.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "core/random.h"
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
  // at most about `memory_bytes` of them (at least one trajectory, or two if they are streamed).
  TransitionSampler(const TrajectoryReader& reader, std::int64_t members, std::int64_t window,
                    std::uint64_t seed, std::int64_t memory_bytes);
  ~TransitionSampler();
  TransitionSampler(const TransitionSampler&) = delete;
  TransitionSampler& operator=(const TransitionSampler&) = delete;

  std::int64_t transitions() const { return members_ * per_trajectory_; }
  std::int64_t pool_members() const { return pool_members_; }
  // Whether all data fit in one pool.
  bool is_whole() const { return pool_members_ == members_; }

  // The transition at a position of the order; only if is_whole(). Reads no data.
  std::int64_t transition_at(std::int64_t position) const;

  // The transitions at positions first .. first+count-1. `out`'s storage is reused. Positions
  // should grow from call to call: each step back over a pool's edge reads a pool.
  void fill(std::int64_t first, std::int64_t count, Batch& out);

 private:
  struct Pool {
    std::int64_t epoch = -1, number = -1;
    std::vector<std::int64_t> index;  // its trajectories
    std::vector<float> states;        // [index.size(), steps, state]
  };
  // Where a position is: which epoch and pool, and which place in the pool's shuffle.
  struct Place {
    std::int64_t epoch, pool, in_pool;
  };

  Place place_of(std::int64_t position) const;
  // Of a pool's elements (slot in the pool * per_trajectory_ + t) in the epoch of `place`.
  Permutation order_in(const Place& place) const;
  std::int64_t members_of(std::int64_t pool) const;
  bool is_current(const Place& place) const;
  void read_pool(std::int64_t epoch, std::int64_t number, Pool& pool) const;
  void make_current(const Place& place);
  // Fills the rows row_of_place + i of `out`, begin <= i < end, with the transitions i places after
  // `place`, all of the current pool.
  void fill_rows(const Place& place, std::int64_t row_of_place, std::int64_t begin,
                 std::int64_t end, Batch& out) const;

  const TrajectoryReader& reader_;
  std::int64_t members_, window_, per_trajectory_, pool_members_;
  std::uint64_t seed_;
  Pool current_, next_;
  std::future<void> reading_next_;  // not valid when nothing is being read
};

}  // namespace slift
