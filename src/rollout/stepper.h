// The step of a rollout: random numbers for (member, time), the method's sample of the next state,
// the window moved on.
//
// A stepper holds the fixed buffers of one block of rows on the model's device. On a GPU the step
// is recorded as one CUDA graph (tensor/step_graph.h) that reads members and time from these
// buffers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "methods/transition_model.h"
#include "tensor/step_graph.h"

namespace slift {

class Stepper {
 public:
  // All rows are zeros at time 0 until load(). `model` must outlive the stepper. Without `graph`
  // nothing is recorded: slower, same results.
  Stepper(const TransitionModel& model, std::uint64_t seed, std::int64_t rows, bool graph = true);

  // Row r becomes member first_member + r with the window window[r], whose last state is that of
  // `time`. window [rows, m, state...] on the model's device.
  void load(std::int64_t first_member, const Tensor& window, std::int64_t time);

  // Moves all rows on by one step. On a GPU the work is queued on the current stream, and the host
  // is kept from running more than 2 kAhead steps ahead of it.
  void advance();

  // Views of the buffers; the next call overwrites them.
  const Tensor& window() const { return window_; }    // [rows, m, state...], oldest first
  const Tensor& numbers() const { return numbers_; }  // [rows, n], of the last step
  // The state `age` steps before the newest, 0 <= age < m: [rows, state...].
  Tensor state(std::int64_t age = 0) const { return window_.select(1, -1 - age); }
  std::int64_t rows() const { return window_.size(0); }

 private:
  static constexpr int kAhead = 16;

  void step();

  const TransitionModel& model_;
  std::uint64_t seed_;
  Tensor members_;  // [rows] int64
  Tensor time_;     // [1] int64, of the newest state
  Tensor numbers_, window_;
  std::optional<StepGraph> graph_;
  int queued_ = 0;                 // steps since ...
  std::function<void()> reached_;  // ... the one this waits for; empty if none
};

// The window [rows, length, state...] that ends with the states [rows, given, state...], given <=
// length; before them it is the first one repeated.
Tensor padded_window(const Tensor& states, std::int64_t length);

// Rows of one network evaluation, unless a number is asked for: on the CPU few, to spread over
// threads, on a GPU many. Depends on the model's states and device alone.
std::int64_t default_batch(const TransitionModel& model);

// Calls attempt(rows), with half the rows again after every c10::OutOfMemoryError and a warning.
// With one row the error is passed on.
void halve_until_it_fits(std::int64_t rows, const std::function<void(std::int64_t)>& attempt);

// What a rollout needs, for all of its length: one stepper per thread on the CPU, one on a GPU. On
// a GPU it has run and is recorded; if memory was short, with fewer rows than asked for.
using Steppers = std::deque<Stepper>;
Steppers make_steppers(const TransitionModel& model, std::uint64_t seed, std::int64_t rows,
                       bool graph = true);

}  // namespace slift
