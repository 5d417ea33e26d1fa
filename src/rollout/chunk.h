// Some members of an ensemble on their way through time.
//
// Member i is a function of (model, seed, its first states, i) and the number of rows of a stepper
// to the last bit, whatever the chunk and the number of threads: a matrix product may round
// differently for another number of rows, so the network always sees blocks of that many, with
// member i in row i mod that. Rows that belong to no member of the chunk start from zeros; a chunk
// of whole blocks has none.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rollout/device_work.h"
#include "rollout/stepper.h"

namespace slift {

class Chunk {
 public:
  // Members first .. first+initial.size(0)-1. `initial` [count, given, state...], on the host, has
  // their states 0 .. given-1, given <= m; the window before them is the first one repeated.
  // `steppers` must outlive the chunk; chunks may use them in turn, between their calls.
  Chunk(Steppers& steppers, std::int64_t first, const Tensor& initial);

  // Writes the states t, t+every, t+2 every, ... of all members to `out` [count, n, state...] on
  // the host. Calls go forward in time: t is beyond all states of the call before. on_steps(rows)
  // is called by many threads at once, for every network evaluation, with the members it moves.
  // Returns a function that waits until all is there, empty if it is: with a GPU and pinned `out`
  // the work is only queued, on the current stream, and copies run beside the steps that follow.
  // Throws Interrupted soon after an interrupt; the chunk is of no use then.
  std::function<void()> advance(std::int64_t t, std::int64_t every, const Tensor& out,
                                const std::function<void(std::int64_t)>& on_steps);

 private:
  // Rows begin .. end-1 are the members base+begin .. base+end-1.
  struct Block {
    std::int64_t base, begin, end;
    Tensor window;      // [rows, m, state...] on the steppers' device, between calls
    std::int64_t time;  // of its last state
  };
  Block make_block(std::int64_t base, const Tensor& initial) const;
  void advance(Stepper& stepper, Block& block, std::int64_t t, std::int64_t every,
               const Tensor& out, const std::function<void(std::int64_t)>& on_steps) const;

  Steppers& steppers_;
  HostCopies copies_;
  std::int64_t first_;
  std::vector<Block> blocks_;
};

}  // namespace slift
