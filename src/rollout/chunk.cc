#include "rollout/chunk.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "core/interrupt.h"
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
  // Each stepper takes every so manyth block; one alone stays in this thread.
  const std::size_t workers = std::min(steppers_.size(), blocks_.size());
  const SerialBlas serial;
  at::parallel_for(
      0, static_cast<std::int64_t>(workers), 1, [&](std::int64_t begin, std::int64_t end) {
        const c10::InferenceMode inference;
        for (auto w = static_cast<std::size_t>(begin); w < static_cast<std::size_t>(end); ++w) {
          for (std::size_t b = w; b < blocks_.size(); b += workers) {
            advance(steppers_[w], blocks_[b], t, every, out, on_steps);
          }
        }
      });
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
