// Takes finished pieces of an ensemble off the rollout's hands: a thread checks them, maps their
// states and writes them, while the next piece is computed.
//
//   PieceWriter pieces(writer, map, setup);
//   Piece piece = pieces.take();   // waits for memory: a slow disk slows the rollout down here
//   ... fill piece ...
//   pieces.put(std::move(piece));
//   pieces.finish();
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "data/state_map.h"
#include "data/trajectories.h"
#include "rollout/diverged.h"
#include "tensor/torch_compat.h"

namespace slift {

// The states step .. step+states-1, counted as stored, of members first .. first+count-1 of a file.
struct Piece {
  std::int64_t first = 0, count = 0, step = 0, states = 0;
  Tensor values;               // a float32 buffer on the host; view() is at its beginning
  std::function<void()> wait;  // returns when the values have arrived; empty if they have

  Tensor view(const std::vector<std::int64_t>& state_shape) const;  // [count, states, state...]
};

class PieceWriter {
 public:
  static constexpr std::int64_t kPieces = 3;  // one computed, one waiting, one written

  struct Setup {
    std::int64_t state_size = 0;
    std::int64_t capacity = 0;      // floats of a piece's buffer
    std::int64_t first_member = 0;  // the number of the file's first member
    std::int64_t every = 1;         // steps between stored states
    bool gpu = false;               // pinned buffers; the map uses all cores, which are idle
  };

  // `writer` and `map` must outlive this object.
  PieceWriter(TrajectoryWriter& writer, const StateMap& map, const Setup& setup);
  // Drops what has not been written yet.
  ~PieceWriter();
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  // Each rethrows what went wrong in the thread; Diverged naming member and step if a state is not
  // finite. Pieces are written in the order of put(); one with the last states of its
  // members is recorded in the writer's journal now and then.
  Piece take();
  void put(Piece piece);
  void finish();  // waits until all is written

  // Members 0 .. finished()-1 are whole in the file. After finish().
  std::int64_t finished() const { return finished_; }

 private:
  void run();
  void write(const Piece& piece);
  void require_finite(const Piece& piece) const;

  TrajectoryWriter& writer_;
  const StateMap& map_;
  const Setup setup_;
  std::vector<float> kept_;
  std::int64_t finished_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> waiting_, free_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace slift
