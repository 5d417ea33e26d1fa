#include "data/sampler.h"

#include <algorithm>
#include <cstring>

#include "core/errors.h"
#include "core/random.h"

namespace slift {
namespace {

constexpr std::int64_t kBlockBytes = 64 << 10;

// The shuffles of one epoch: of trajectories (0), then of the transitions of each pool (1, 2, ...).
std::uint64_t shuffle_index(std::int64_t epoch, std::int64_t which) {
  return (static_cast<std::uint64_t>(epoch) << 24) | static_cast<std::uint64_t>(which);
}

}  // namespace

void copy_window(const float* trajectory, std::int64_t state_size, std::int64_t t, std::int64_t m,
                 float* out) {
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t step = std::max<std::int64_t>(0, t - (m - 1) + i);
    std::memcpy(out + i * state_size, trajectory + step * state_size,
                static_cast<std::size_t>(state_size) * sizeof(float));
  }
}

TransitionSampler::TransitionSampler(const TrajectoryReader& reader, std::int64_t members,
                                     std::int64_t window, std::uint64_t seed,
                                     std::int64_t memory_bytes)
    : reader_(reader),
      members_(members),
      window_(window),
      per_trajectory_(reader.info().steps - 1),
      pool_members_(std::min(members, members_within(reader.info(), memory_bytes))),
      seed_(seed) {
  require(per_trajectory_ > 0, "{}: at least 2 stored states are needed to learn a step, got 1",
          reader.path());
}

void TransitionSampler::load_pool(std::int64_t epoch, std::int64_t pool) {
  const bool whole = pool_members_ == members_;
  if (loaded_pool_ == pool && (whole || loaded_epoch_ == epoch)) return;
  const std::int64_t first = pool * pool_members_;
  const std::int64_t count = std::min(pool_members_, members_ - first);
  const auto size = static_cast<std::size_t>(reader_.info().trajectory_size());
  pool_index_.resize(static_cast<std::size_t>(count));
  pool_.resize(static_cast<std::size_t>(count) * size);
  if (whole) {
    for (std::int64_t i = 0; i < count; ++i) pool_index_[static_cast<std::size_t>(i)] = i;
    reader_.read(0, count, pool_);
  } else {
    // Blocks of neighbours are shuffled, not single trajectories, so that reads stay long. The last
    // block, if it is short, keeps its place.
    const std::int64_t block = members_within(reader_.info(), kBlockBytes);
    const std::int64_t full_blocks = members_ / block;
    const Permutation order(seed_, shuffle_index(epoch, 0),
                            static_cast<std::uint64_t>(std::max<std::int64_t>(full_blocks, 1)));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = first + i, b = position / block;
      pool_index_[static_cast<std::size_t>(i)] =
          b < full_blocks
              ? static_cast<std::int64_t>(order(static_cast<std::uint64_t>(b))) * block +
                    position % block
              : position;
    }
    std::sort(pool_index_.begin(), pool_index_.end());  // reads the file forwards
    for (std::size_t i = 0; i < pool_index_.size();) {
      std::size_t run = 1;
      while (i + run < pool_index_.size() && pool_index_[i + run] == pool_index_[i + run - 1] + 1) {
        ++run;
      }
      reader_.read(pool_index_[i], static_cast<std::int64_t>(run),
                   std::span(pool_).subspan(i * size, run * size));
      i += run;
    }
  }
  loaded_epoch_ = epoch;
  loaded_pool_ = pool;
}

void TransitionSampler::fill(std::int64_t iteration, std::int64_t batch_size, Batch& out) {
  const TrajectoryInfo& info = reader_.info();
  const std::int64_t size = info.state_size();
  out.transition.resize(static_cast<std::size_t>(batch_size));
  out.window.resize(static_cast<std::size_t>(batch_size * window_ * size));
  out.next.resize(static_cast<std::size_t>(batch_size * size));
  for (std::int64_t j = 0; j < batch_size; ++j) {
    const std::int64_t position = iteration * batch_size + j;
    const std::int64_t epoch = position / transitions();
    const std::int64_t in_epoch = position % transitions();
    const std::int64_t pool = in_epoch / (pool_members_ * per_trajectory_);
    load_pool(epoch, pool);
    const auto loaded = static_cast<std::int64_t>(pool_index_.size());
    const Permutation order(seed_, shuffle_index(epoch, 1 + pool),
                            static_cast<std::uint64_t>(loaded * per_trajectory_));
    const auto element = static_cast<std::int64_t>(
        order(static_cast<std::uint64_t>(in_epoch - pool * pool_members_ * per_trajectory_)));
    const std::int64_t slot = element / per_trajectory_, t = element % per_trajectory_;
    const float* trajectory = pool_.data() + slot * info.trajectory_size();
    out.transition[static_cast<std::size_t>(j)] =
        pool_index_[static_cast<std::size_t>(slot)] * per_trajectory_ + t;
    copy_window(trajectory, size, t, window_, out.window.data() + j * window_ * size);
    std::memcpy(out.next.data() + j * size, trajectory + (t + 1) * size,
                static_cast<std::size_t>(size) * sizeof(float));
  }
}

}  // namespace slift
