// Some members of an ensemble on their way through time.
//
// Member i is a function of (model, seed, its first states, i) to the last bit, whatever the chunk
// and the number of threads: the network always sees blocks of block_rows() rows with member i in
// row i mod that, so every matrix product runs the same way. Rows that belong to no member of the
// chunk start from zeros; a chunk of whole blocks has none.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nets/transition_model.h"

namespace slift {

// Rows of one network evaluation.
std::int64_t block_rows(const TransitionModel& model);

class Chunk {
 public:
  // Members first .. first+initial.size(0)-1. `initial` [count, given, state...], on the host, has
  // their states 0 .. given-1; with one state, the window before it is that state repeated. `model`
  // must outlive the chunk.
  Chunk(const TransitionModel& model, std::uint64_t seed, std::int64_t first,
        const Tensor& initial);

  // Writes the states t, t+every, t+2 every, ... of all members to `out` [count, n, state...] on
  // the host. Calls go forward in time: t is beyond all states of the call before. on_steps(rows)
  // is called by many threads at once, for every network evaluation, with the members it moved.
  // With a GPU and pinned `out` the work is only queued, on the current stream. Throws Interrupted
  // soon after an interrupt; the chunk is of no use then.
  void advance(std::int64_t t, std::int64_t every, const Tensor& out,
               const std::function<void(std::int64_t)>& on_steps);

 private:
  // Rows begin .. end-1 are the members base+begin .. base+end-1.
  struct Block {
    std::int64_t base, begin, end;
    Tensor members;              // [rows] int64
    Tensor given;                // [rows, given, state...]
    std::vector<Tensor> window;  // of [rows, state...], oldest first; the last is the state at time
    std::int64_t time;
  };
  Block make_block(std::int64_t base, const Tensor& initial) const;
  void advance(Block& block, std::int64_t t, std::int64_t every, const Tensor& out,
               const std::function<void(std::int64_t)>& on_steps) const;

  const TransitionModel& model_;
  LabelSource labels_;
  std::int64_t first_;
  std::vector<Block> blocks_;
};

}  // namespace slift
