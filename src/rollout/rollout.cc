#include "rollout/rollout.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

// Rows of one network evaluation. On the CPU small blocks spread over threads; a GPU wants many.
std::int64_t block_rows(const TransitionModel& model) {
  const bool vectors = model.spec().state_shape.size() == 1;
  if (model.device().is_cuda()) return vectors ? 4096 : 64;
  return vectors ? 64 : 4;
}

// The part of one block that lies in the chunk: rows begin .. end-1, members base+begin ...
struct Block {
  std::int64_t base, begin, end;
};

void roll_out_block(const TransitionModel& model, const RolloutOptions& options, const Block& block,
                    std::int64_t rows, std::int64_t first, std::span<const float> initial,
                    std::span<float> out) {
  c10::InferenceMode inference;
  const ModelSpec& spec = model.spec();
  const LabelSource labels{options.seed, spec.label_dimension, parse_label_kind(spec.label_kind)};
  std::int64_t size = 1;
  for (const std::int64_t n : spec.state_shape) size *= n;
  std::vector<std::int64_t> shape = {rows};
  shape.insert(shape.end(), spec.state_shape.begin(), spec.state_shape.end());

  Tensor start = at::zeros(shape, at::kFloat);
  const auto bytes = static_cast<std::size_t>(size) * sizeof(float);
  const std::int64_t offset = block.base + block.begin - first;  // of the first row in the chunk
  std::memcpy(start.data_ptr<float>() + block.begin * size, initial.data() + offset * size,
              static_cast<std::size_t>(block.end - block.begin) * bytes);
  const auto store = [&](const Tensor& state, std::int64_t step) {
    const Tensor host = state.to(at::kCPU).contiguous();
    for (std::int64_t r = block.begin; r < block.end; ++r) {
      const std::int64_t row = block.base + r - first;
      std::memcpy(out.data() + (row * (options.steps + 1) + step) * size,
                  host.data_ptr<float>() + r * size, bytes);
    }
  };
  store(start, 0);
  const Tensor members = at::arange(block.base, block.base + rows, at::kLong).to(model.device());
  std::vector<Tensor> window(static_cast<std::size_t>(spec.net.window), start.to(model.device()));
  for (std::int64_t step = 0; step < options.steps; ++step) {
    Tensor next = model.forward(at::stack(window, 1), labels.for_members(members, step));
    store(next, step + 1);
    window.erase(window.begin());
    window.push_back(std::move(next));
  }
}

void require_finite_members(std::span<const float> states, std::int64_t first, std::int64_t count,
                            std::int64_t steps, std::int64_t size) {
  for (std::int64_t m = 0; m < count; ++m) {
    for (std::int64_t i = 0; i < (steps + 1) * size; ++i) {
      const float x = states[static_cast<std::size_t>(m * (steps + 1) * size + i)];
      if (!std::isfinite(x)) {
        throw std::runtime_error(
            fmt::format("the rollout diverged: member {} is {} at step {}; the model is not stable "
                        "there (train longer, or use a larger data set)",
                        first + m, x, i / size));
      }
    }
  }
}

}  // namespace

void roll_out_chunk(const TransitionModel& model, const RolloutOptions& options, std::int64_t first,
                    std::int64_t count, std::span<const float> initial, std::span<float> out) {
  const std::int64_t rows = block_rows(model);
  std::vector<Block> blocks;
  for (std::int64_t base = first / rows * rows; base < first + count; base += rows) {
    blocks.push_back(
        {base, std::max<std::int64_t>(0, first - base), std::min(rows, first + count - base)});
  }
  const SerialBlas serial;
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t b = begin; b < end; ++b) {
                       roll_out_block(model, options, blocks[static_cast<std::size_t>(b)], rows,
                                      first, initial, out);
                     }
                   });
  require_finite_members(out, first, count, options.steps,
                         static_cast<std::int64_t>(initial.size()) / count);
}

TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const std::filesystem::path& out) {
  const ModelSpec& spec = model.spec();
  require(initial.info().state_shape == spec.state_shape, "{}: states {} do not fit the model's {}",
          initial.path(), fmt::join(initial.info().state_shape, " x "),
          fmt::join(spec.state_shape, " x "));
  TrajectoryInfo info;
  info.members = options.members;
  info.steps = options.steps + 1;
  info.state_shape = spec.state_shape;
  info.dt = spec.dt;
  info.system = spec.system;
  info.boundary = spec.boundary;
  info.seed = options.seed;
  info.fields = spec.fields;

  const std::int64_t size = info.state_size();
  const std::int64_t chunk =
      std::min(options.chunk > 0 ? options.chunk : members_within(info, 256 << 20), info.members);
  TrajectoryWriter writer(out, info);
  Progress progress("rollout", "members", info.members);
  std::vector<float> start, states;
  for (std::int64_t first = 0; first < info.members; first += chunk) {
    if (interrupt_requested()) throw Interrupted("rollout stopped; nothing was written");
    const std::int64_t count = std::min(chunk, info.members - first);
    start.resize(static_cast<std::size_t>(count * size));
    states.resize(static_cast<std::size_t>(count * info.trajectory_size()));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = (options.first_initial + first + i) % initial.info().members;
      initial.read_steps(from, 1, 0, 1,
                         std::span(start).subspan(static_cast<std::size_t>(i * size),
                                                  static_cast<std::size_t>(size)));
    }
    roll_out_chunk(model, options, first, count, start, states);
    writer.write(first, count, states);
    progress.update(first + count);
  }
  writer.commit();
  return info;
}

}  // namespace slift
