#include "data/sampler.h"

#include <algorithm>
#include <cstring>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/random.h"

namespace slift {
namespace {

constexpr std::int64_t kBlockBytes = 64 << 10;
constexpr std::int64_t kShareBytes = 8 << 10;  // of a batch that one thread fills at a time

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
  if (!is_whole()) pool_members_ = members_within(reader.info(), memory_bytes / 2);
}

TransitionSampler::~TransitionSampler() = default;  // waits for the reading thread

TransitionSampler::Place TransitionSampler::place_of(std::int64_t position) const {
  const std::int64_t in_epoch = position % transitions();
  const std::int64_t pool = in_epoch / (pool_members_ * per_trajectory_);
  return {position / transitions(), pool, in_epoch - pool * pool_members_ * per_trajectory_};
}

std::int64_t TransitionSampler::members_of(std::int64_t pool) const {
  return std::min(pool_members_, members_ - pool * pool_members_);
}

Permutation TransitionSampler::order_in(const Place& place) const {
  return {seed_, shuffle_index(place.epoch, 1 + place.pool),
          static_cast<std::uint64_t>(members_of(place.pool) * per_trajectory_)};
}

std::int64_t TransitionSampler::transition_at(std::int64_t position) const {
  if (!is_whole()) throw std::logic_error("TransitionSampler::transition_at: data are streamed");
  const Place place = place_of(position);
  return static_cast<std::int64_t>(order_in(place)(static_cast<std::uint64_t>(place.in_pool)));
}

void TransitionSampler::read_pool(std::int64_t epoch, std::int64_t number, Pool& pool) const {
  const std::int64_t first = number * pool_members_, count = members_of(number);
  const auto size = static_cast<std::size_t>(reader_.info().trajectory_size());
  pool.index.resize(static_cast<std::size_t>(count));
  pool.states.resize(static_cast<std::size_t>(count) * size);
  // Blocks of neighbours are shuffled, not single trajectories, so that reads stay long. The last
  // block, if it is short, keeps its place.
  const std::int64_t block = members_within(reader_.info(), kBlockBytes);
  const std::int64_t full_blocks = members_ / block;
  const Permutation order(seed_, shuffle_index(epoch, 0),
                          static_cast<std::uint64_t>(std::max<std::int64_t>(full_blocks, 1)));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = first + i, b = position / block;
    const bool moves = !is_whole() && b < full_blocks;
    pool.index[static_cast<std::size_t>(i)] =
        moves ? static_cast<std::int64_t>(order(static_cast<std::uint64_t>(b))) * block +
                    position % block
              : position;
  }
  std::sort(pool.index.begin(), pool.index.end());  // reads the file forwards
  for (std::size_t i = 0; i < pool.index.size();) {
    std::size_t run = 1;
    while (i + run < pool.index.size() && pool.index[i + run] == pool.index[i + run - 1] + 1) ++run;
    reader_.read(pool.index[i], static_cast<std::int64_t>(run),
                 std::span(pool.states).subspan(i * size, run * size));
    i += run;
  }
  pool.epoch = epoch;
  pool.number = number;
}

bool TransitionSampler::is_current(const Place& place) const {
  return current_.number == place.pool && (is_whole() || current_.epoch == place.epoch);
}

void TransitionSampler::make_current(const Place& place) {
  if (reading_next_.valid()) reading_next_.get();
  if (next_.epoch == place.epoch && next_.number == place.pool) {
    std::swap(current_, next_);
  } else {
    current_.number = -1;  // holds nothing, should reading fail
    read_pool(place.epoch, place.pool, current_);
  }
  if (is_whole()) return;
  const bool last = (place.pool + 1) * pool_members_ >= members_;
  const std::int64_t epoch = last ? place.epoch + 1 : place.epoch;
  const std::int64_t number = last ? 0 : place.pool + 1;
  next_.number = -1;
  reading_next_ =
      std::async(std::launch::async, [this, epoch, number] { read_pool(epoch, number, next_); });
}

void TransitionSampler::fill(std::int64_t first, std::int64_t count, Batch& out) {
  const TrajectoryInfo& info = reader_.info();
  const std::int64_t size = info.state_size();
  out.transition.resize(static_cast<std::size_t>(count));
  out.window.resize(static_cast<std::size_t>(count * window_ * size));
  out.next.resize(static_cast<std::size_t>(count * size));
  const std::int64_t row_bytes = (window_ + 1) * size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t share = std::max<std::int64_t>(1, kShareBytes / row_bytes);
  for (std::int64_t begin = 0; begin < count;) {
    const Place place = place_of(first + begin);
    if (!is_current(place)) make_current(place);
    const std::int64_t left_in_pool = members_of(place.pool) * per_trajectory_ - place.in_pool;
    const std::int64_t rows = std::min(count - begin, left_in_pool);
    parallel_for_pieces(rows, share, [&](std::int64_t from, std::int64_t to) {
      fill_rows(place, begin, from, to, out);
    });
    begin += rows;
  }
}

void TransitionSampler::fill_rows(const Place& place, std::int64_t row_of_place, std::int64_t begin,
                                  std::int64_t end, Batch& out) const {
  const TrajectoryInfo& info = reader_.info();
  const std::int64_t size = info.state_size();
  const Permutation order = order_in(place);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t row = row_of_place + i;
    const auto element =
        static_cast<std::int64_t>(order(static_cast<std::uint64_t>(place.in_pool + i)));
    const std::int64_t slot = element / per_trajectory_, t = element % per_trajectory_;
    const float* trajectory = current_.states.data() + slot * info.trajectory_size();
    out.transition[static_cast<std::size_t>(row)] =
        current_.index[static_cast<std::size_t>(slot)] * per_trajectory_ + t;
    copy_window(trajectory, size, t, window_, out.window.data() + row * window_ * size);
    std::memcpy(out.next.data() + row * size, trajectory + (t + 1) * size,
                static_cast<std::size_t>(size) * sizeof(float));
  }
}

}  // namespace slift
