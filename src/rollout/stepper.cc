#include "rollout/stepper.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/cuda.h>

#include <algorithm>

#include "core/log.h"
#include "rollout/device_work.h"
#include "tensor/beside.h"

namespace slift {

Stepper::Stepper(const TransitionModel& model, std::uint64_t seed, std::int64_t rows, bool graph)
    : model_(model), seed_(seed) {
  if (graph) graph_.emplace(model.device());
  const c10::InferenceMode inference;
  const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(model.device());
  std::vector<std::int64_t> shape = {rows, model.spec().net.window};
  shape.insert(shape.end(), model.spec().state_shape.begin(), model.spec().state_shape.end());
  members_ = at::arange(rows, floats.dtype(at::kLong));
  time_ = at::zeros({1}, floats.dtype(at::kLong));
  numbers_ = at::zeros({rows, model.method().numbers()}, floats);
  window_ = at::zeros(shape, floats);
}

void Stepper::load(std::int64_t first_member, const Tensor& window, std::int64_t time) {
  const c10::InferenceMode inference;
  TORCH_CHECK(window.sizes() == window_.sizes(), "Stepper: a window of another shape");
  at::arange_out(members_, first_member, first_member + rows(), 1);
  window_.copy_(window);
  time_.fill_(time);
}

void Stepper::advance() {
  const c10::InferenceMode inference;
  model_.sync();
  graph_ ? graph_->run([this] { step(); }) : step();
  // Otherwise an interrupt would find minutes of work in the queue.
  if (++queued_ < kAhead) return;
  queued_ = 0;
  if (reached_) reached_();
  reached_ = arrival(model_.device());
}

void Stepper::step() {
  model_.method().draw(seed_, members_, time_, numbers_);
  const Beside next(model_.device(), [this] { time_.add_(1); });
  model_.advance(window_, numbers_);
}

Tensor padded_window(const Tensor& states, std::int64_t length) {
  std::vector<std::int64_t> before = states.sizes().vec();
  before[1] = length - states.size(1);
  return at::cat({states.narrow(1, 0, 1).expand(before), states}, 1);
}

std::int64_t default_batch(const TransitionModel& model) {
  const std::vector<std::int64_t>& shape = model.spec().state_shape;
  const bool gpu = model.device().is_cuda();
  if (shape.size() == 1) return gpu ? 4096 : 64;
  // Small fields go together until a block is worth a call.
  const std::int64_t cells = shape[1] * shape[2];
  return gpu ? std::max<std::int64_t>(64, (1 << 18) / cells)
             : std::max<std::int64_t>(4, (1 << 14) / cells);
}

void halve_until_it_fits(std::int64_t rows, const std::function<void(std::int64_t)>& attempt) {
  for (;; rows /= 2) {
    try {
      return attempt(rows);
    } catch (const c10::OutOfMemoryError&) {
      if (rows == 1) throw;
    }
    spdlog::warn("not enough GPU memory for {} members in one network evaluation: trying {}", rows,
                 rows / 2);
  }
}

Steppers make_steppers(const TransitionModel& model, std::uint64_t seed, std::int64_t rows,
                       bool graph) {
  Steppers steppers;
  if (!model.device().is_cuda()) {
    for (int i = 0; i < at::get_num_threads(); ++i) steppers.emplace_back(model, seed, rows, graph);
    return steppers;
  }
  halve_until_it_fits(rows, [&](std::int64_t fewer) {
    // What an attempt left running must not meet the memory of the next.
    torch::cuda::synchronize();
    steppers.clear();
    Stepper& stepper = steppers.emplace_back(model, seed, fewer, graph);
    for (int i = 0; i <= StepGraph::kWarmups; ++i) stepper.advance();
  });
  return steppers;
}

}  // namespace slift
