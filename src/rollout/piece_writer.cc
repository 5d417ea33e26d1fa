#include "rollout/piece_writer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "core/errors.h"
#include "core/parallel.h"

namespace slift {
namespace {

constexpr std::int64_t kSliceFloats = 1 << 20;     // mapped at a time
constexpr std::chrono::milliseconds kRecord{100};  // a sync each: not after every small chunk

// A plain loop over bits, which compilers vectorise.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t bad = 0;
  for (const float x : values) bad |= (std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent;
  return bad == 0;
}

std::span<const float> values_of(const Piece& piece, std::int64_t begin, std::int64_t count) {
  return {piece.values.data_ptr<float>() + begin, static_cast<std::size_t>(count)};
}

}  // namespace

Tensor Piece::view(const std::vector<std::int64_t>& state_shape) const {
  std::vector<std::int64_t> shape = {count, states};
  shape.insert(shape.end(), state_shape.begin(), state_shape.end());
  const std::int64_t size =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return values.narrow(0, 0, size).view(shape);
}

PieceWriter::PieceWriter(TrajectoryWriter& writer, const StateMap& map, const Setup& setup)
    : writer_(writer), map_(map), setup_(setup), finished_(writer.recorded()) {
  const auto options = at::TensorOptions(at::kFloat).pinned_memory(setup.gpu);
  for (std::int64_t i = 0; i < kPieces; ++i) {
    free_.emplace_back().values = at::empty({setup.capacity}, options);
  }
  thread_ = std::thread([this] { run(); });
}

PieceWriter::~PieceWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Piece PieceWriter::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !free_.empty() || error_; });
  if (error_) std::rethrow_exception(error_);
  Piece piece = std::move(free_.front());
  free_.pop_front();
  return piece;
}

void PieceWriter::put(Piece piece) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(piece));
  }
  changed_.notify_all();
}

void PieceWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (waiting_.empty() && !busy_) || error_; });
  if (error_) std::rethrow_exception(error_);
}

void PieceWriter::run() {
  auto recorded = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || stop_; });
    if (stop_) return;
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    try {
      write(piece);
      if (finished_ > writer_.recorded() && std::chrono::steady_clock::now() - recorded > kRecord) {
        writer_.record(finished_);
        recorded = std::chrono::steady_clock::now();
      }
    } catch (...) {
      lock.lock();
      error_ = std::current_exception();
      changed_.notify_all();
      return;
    }
    piece.wait = nullptr;
    lock.lock();
    free_.push_back(std::move(piece));
    busy_ = false;
    changed_.notify_all();
  }
}

void PieceWriter::write(const Piece& piece) {
  if (piece.wait) piece.wait();
  require_finite(piece);
  const std::int64_t kept = map_.size(), per_member = piece.states * kept;
  const std::int64_t slice = std::clamp<std::int64_t>(kSliceFloats / per_member, 1, piece.count);
  for (std::int64_t m = 0; m < piece.count; m += slice) {
    const std::int64_t members = std::min(slice, piece.count - m);
    kept_.resize(static_cast<std::size_t>(members * per_member));
    const auto map_state = [&](std::int64_t i) {
      map_.apply(values_of(piece, (m * piece.states + i) * setup_.state_size, setup_.state_size),
                 std::span(kept_).subspan(static_cast<std::size_t>(i * kept),
                                          static_cast<std::size_t>(kept)));
    };
    const std::int64_t states = members * piece.states;
    if (setup_.gpu) {
      parallel_for(states, map_state);
    } else {
      for (std::int64_t i = 0; i < states; ++i) map_state(i);
    }
    writer_.write_steps(piece.first + m, members, piece.step, piece.states, kept_);
  }
  if (piece.step + piece.states == writer_.info().steps) finished_ = piece.first + piece.count;
}

void PieceWriter::require_finite(const Piece& piece) const {
  const std::int64_t size = setup_.state_size, states = piece.count * piece.states;
  if (all_finite(values_of(piece, 0, states * size))) return;
  for (std::int64_t i = 0; i < states; ++i) {
    const auto state = values_of(piece, i * size, size);
    const auto bad = std::ranges::find_if_not(state, [](float x) { return std::isfinite(x); });
    if (bad == state.end()) continue;
    throw Diverged(fmt::format(
        "the rollout diverged: member {} is {} at step {}; the model is not stable there (train "
        "longer, or use a larger data set)",
        setup_.first_member + piece.first + i / piece.states, *bad,
        (piece.step + i % piece.states) * setup_.every));
  }
}

}  // namespace slift
