#include "rollout/chunk.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "core/interrupt.h"
#include "tensor/runtime.h"

namespace slift {

// On the CPU small blocks spread over threads; a GPU wants many rows.
// On the CPU small blocks spread over threads; a GPU wants many rows. Small fields go together
// until a block is worth a call.
std::int64_t block_rows(const TransitionModel& model) {
  const std::vector<std::int64_t>& shape = model.spec().state_shape;
  const bool gpu = model.device().is_cuda();
  if (shape.size() == 1) return gpu ? 4096 : 64;
  const std::int64_t cells = shape[1] * shape[2];
  return gpu ? std::max<std::int64_t>(64, (1 << 18) / cells)
             : std::max<std::int64_t>(4, (1 << 14) / cells);
}

Chunk::Chunk(const TransitionModel& model, std::uint64_t seed, std::int64_t first,
             const Tensor& initial)
    : model_(model),
      labels_{seed, model.spec().label_dimension, parse_label_kind(model.spec().label_kind)},
      first_(first) {
  const c10::InferenceMode inference;
  const std::int64_t rows = block_rows(model);
  for (std::int64_t base = first / rows * rows; base < first + initial.size(0); base += rows) {
    blocks_.push_back(make_block(base, initial));
  }
}

Chunk::Block Chunk::make_block(std::int64_t base, const Tensor& initial) const {
  const std::int64_t rows = block_rows(model_), end = first_ + initial.size(0);
  const at::Device device = model_.device();
  Block block{base,
              std::max<std::int64_t>(0, first_ - base),
              std::min(rows, end - base),
              {},
              {},
              {},
              initial.size(1) - 1};
  block.members = at::arange(base, base + rows, at::TensorOptions(at::kLong).device(device));
  std::vector<std::int64_t> shape = initial.sizes().vec();
  shape[0] = rows;
  block.given = at::zeros(shape, at::TensorOptions(at::kFloat).device(device));
  const std::int64_t count = block.end - block.begin;
  block.given.narrow(0, block.begin, count)
      .copy_(initial.narrow(0, base + block.begin - first_, count), /*non_blocking=*/true);
  for (std::int64_t t = block.time - model_.spec().net.window + 1; t <= block.time; ++t) {
    block.window.push_back(block.given.select(1, std::max<std::int64_t>(t, 0)));
  }
  return block;
}

void Chunk::advance(std::int64_t t, std::int64_t every, const Tensor& out,
                    const std::function<void(std::int64_t)>& on_steps) {
  const auto advance_blocks = [&](std::int64_t begin, std::int64_t end) {
    const c10::InferenceMode inference;
    for (std::int64_t b = begin; b < end; ++b) {
      advance(blocks_[static_cast<std::size_t>(b)], t, every, out, on_steps);
    }
  };
  const auto count = static_cast<std::int64_t>(blocks_.size());
  if (model_.device().is_cuda()) return advance_blocks(0, count);  // one stream, one thread
  const SerialBlas serial;
  at::parallel_for(0, count, 1, advance_blocks);
}

void Chunk::advance(Block& block, std::int64_t t, std::int64_t every, const Tensor& out,
                    const std::function<void(std::int64_t)>& on_steps) const {
  const std::int64_t count = block.end - block.begin;
  std::vector<Tensor> kept;
  for (std::int64_t i = 0; i < out.size(1); ++i) {
    const std::int64_t wanted = t + i * every;
    for (; block.time < wanted; ++block.time) {
      if (interrupt_requested()) throw Interrupted("rollout stopped");
      Tensor next = model_.forward(at::stack(block.window, 1),
                                   labels_.for_members(block.members, block.time));
      block.window.erase(block.window.begin());
      block.window.push_back(std::move(next));
      on_steps(count);
    }
    kept.push_back(wanted < block.given.size(1) ? block.given.select(1, wanted)
                                                : block.window.back());
  }
  // One copy for all states: from a GPU it is a single transfer.
  out.narrow(0, block.base + block.begin - first_, count)
      .copy_(at::stack(kept, 1).narrow(0, block.begin, count), /*non_blocking=*/true);
}

}  // namespace slift
