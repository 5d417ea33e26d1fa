#include "rollout/chunk.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "core/interrupt.h"
#include "core/parallel.h"
#include "tensor/runtime.h"

namespace slift {

Chunk::Chunk(Steppers& steppers, std::int64_t first, const Tensor& initial)
    : steppers_(steppers), copies_(steppers.front().window().device()), first_(first) {
  const c10::InferenceMode inference;
  const std::int64_t rows = steppers.front().rows();
  for (std::int64_t base = first / rows * rows; base < first + initial.size(0); base += rows) {
    blocks_.push_back(make_block(base, initial));
  }
}

Chunk::Block Chunk::make_block(std::int64_t base, const Tensor& initial) const {
  const Tensor& like = steppers_.front().window();
  const std::int64_t begin = std::max<std::int64_t>(0, first_ - base);
  const std::int64_t end = std::min(like.size(0), first_ + initial.size(0) - base);
  Block block{base, begin, end, at::zeros_like(like), initial.size(1) - 1};
  const Tensor states = initial.narrow(0, base + begin - first_, end - begin)
                            .to(like.device(), /*non_blocking=*/true);
  block.window.narrow(0, begin, end - begin).copy_(padded_window(states, like.size(1)));
  return block;
}

std::function<void()> Chunk::advance(std::int64_t t, std::int64_t every, const Tensor& out,
                                     const std::function<void(std::int64_t)>& on_steps) {
  const auto advance_block = [&](std::int64_t b, int slot) {
    const c10::InferenceMode inference;
    const SerialMath serial;  // also of one block alone: its bits must not depend on threads
    advance(steppers_.at(static_cast<std::size_t>(slot)), blocks_[static_cast<std::size_t>(b)], t,
            every, out, on_steps);
  };
  const auto blocks = static_cast<std::int64_t>(blocks_.size());
  if (steppers_.size() > 1) {
    parallel_for_slots(blocks, advance_block);
  } else {
    for (std::int64_t b = 0; b < blocks; ++b) advance_block(b, 0);
  }
  return copies_.arrival();
}

void Chunk::advance(Stepper& stepper, Block& block, std::int64_t t, std::int64_t every,
                    const Tensor& out, const std::function<void(std::int64_t)>& on_steps) const {
  const std::int64_t count = block.end - block.begin;
  const Tensor to = out.narrow(0, block.base + block.begin - first_, count);
  // One copy for all states: from a GPU it is a single transfer.
  const Tensor kept = at::empty(to.sizes(), block.window.options());
  stepper.load(block.base, block.window, block.time);
  for (std::int64_t i = 0; i < out.size(1); ++i) {
    const std::int64_t wanted = t + i * every;
    for (; block.time < wanted; ++block.time) {
      if (interrupt_requested()) throw Interrupted("rollout stopped");
      stepper.advance();
      on_steps(count);
    }
    // Of the given states some are older than the newest.
    kept.select(1, i).copy_(stepper.state(block.time - wanted).narrow(0, block.begin, count));
  }
  block.window.copy_(stepper.window());
  copies_.copy(kept, to);
}

}  // namespace slift
