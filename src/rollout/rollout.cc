#include "rollout/rollout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "rollout/chunk.h"
#include "rollout/piece_writer.h"
#include "tensor/runtime.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kBlocksPerThread = 16;  // of a chunk, unless a size is asked for
constexpr std::int64_t kCalibrationMembers = 16, kCalibrationSteps = 8;

// How an ensemble is cut into pieces: `chunk` members, a whole number of blocks, times `states`.
struct Cut {
  std::int64_t chunk, states;
};

Cut choose_cut(const TransitionModel& model, const RolloutOptions& options,
               const Steppers& steppers, std::int64_t stored) {
  std::int64_t state_bytes = sizeof(float);
  for (const std::int64_t n : model.spec().state_shape) state_bytes *= n;
  const std::int64_t bytes = options.memory / PieceWriter::kPieces;
  const std::int64_t rows = steppers.front().rows();
  const auto threads = static_cast<std::int64_t>(steppers.size());
  const std::int64_t wanted =
      options.chunk > 0 ? (options.chunk + rows - 1) / rows : kBlocksPerThread * threads;
  // Every member of a chunk has a window in memory besides the pieces.
  const std::int64_t fitting = bytes / (rows * state_bytes * model.spec().net.window);
  const std::int64_t chunk = std::min(wanted, std::max(fitting, threads)) * rows;
  const std::int64_t members = std::min(chunk, options.members);
  return {chunk, std::clamp<std::int64_t>(bytes / (members * state_bytes), 1, stored)};
}

// FNV-1a over the model's description and weights, in words of 32 bits.
std::uint64_t digest(const TransitionModel& model) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::uint32_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (const char c : model.spec().to_json().dump()) add(static_cast<unsigned char>(c));
  for (const auto& [name, tensor] : model.tensors()) {
    const Tensor host = tensor.detach().to(at::kCPU).contiguous();
    for (const float x : std::span(host.data_ptr<float>(), static_cast<std::size_t>(host.numel())))
      add(std::bit_cast<std::uint32_t>(x));
  }
  return hash;
}

// Everything the bytes of the file follow from, but what the file itself says (TrajectoryInfo).
std::string describe_work(const TransitionModel& model, const TrajectoryReader& initial,
                          const RolloutOptions& options, std::int64_t batch) {
  const fs::path start = fs::absolute(initial.path());
  nlohmann::json work = {{"slift", SLIFT_VERSION},
                         {"libtorch", torch_version()},
                         {"model", fmt::format("{:016x}", digest(model))},
                         {"device", describe_device(model.device())},
                         {"precision", model.precision()},
                         {"initial", start.string()},
                         {"initial_bytes", fs::file_size(start)},
                         {"initial_changed", fs::last_write_time(start).time_since_epoch().count()},
                         {"first_initial", options.first_initial},
                         {"first_window", options.first_window},
                         {"every", options.every}};
  if (batch != default_batch(model)) work["batch"] = batch;
  // The path may be no UTF-8, which JSON cannot hold; it need not be read back.
  return work.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// States 0 .. given-1 of the trajectories that members first .. first+count-1 start from.
Tensor read_initial(const TrajectoryReader& reader, const RolloutOptions& options,
                    std::int64_t first, std::int64_t count, std::int64_t given, bool pinned) {
  const TrajectoryInfo& info = reader.info();
  std::vector<std::int64_t> shape = {count, given};
  shape.insert(shape.end(), info.state_shape.begin(), info.state_shape.end());
  const Tensor states = at::empty(shape, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  const auto size = static_cast<std::size_t>(given * info.state_size());
  const auto source = [&](std::int64_t i) {
    // Branches of the initial file start alike: one of each is enough.
    return (options.first_initial + (first + i) / options.branches) * info.branches % info.members;
  };
  std::int64_t run = 1;
  for (std::int64_t i = 0; i < count; i += run) {
    float* to = states.data_ptr<float>() + static_cast<std::size_t>(i) * size;
    run = 1;
    if (i > 0 && source(i) == source(i - 1)) {
      std::memcpy(to, to - size, size * sizeof(float));
      continue;
    }
    while (i + run < count && source(i + run) == source(i) + run) ++run;
    reader.read_steps(source(i), run, 0, given, {to, static_cast<std::size_t>(run) * size});
  }
  return states;
}

Steppers steppers_for(const TransitionModel& model, const RolloutOptions& options) {
  return make_steppers(model, options.seed,
                       options.batch > 0 ? options.batch : default_batch(model), options.graph);
}

// States each member is given.
std::int64_t given_states(const ModelSpec& spec, const RolloutOptions& options) {
  return options.first_window ? spec.net.window : 1;
}

void check(const ModelSpec& spec, const TrajectoryReader& initial, const RolloutOptions& options) {
  require(initial.info().state_shape == spec.state_shape, "{}: states {} do not fit the model's {}",
          initial.path(), fmt::join(initial.info().state_shape, " x "),
          fmt::join(spec.state_shape, " x "));
  require(options.every >= 1 && options.every <= options.steps,
          "--every must be between 1 and the {} steps, got {}", options.steps, options.every);
  if (!options.first_window) return;
  require(initial.info().steps >= spec.net.window,
          "{}: --first-window needs the model's window of {} states, got {}", initial.path(),
          spec.net.window, initial.info().steps);
  require(options.steps >= spec.net.window,
          "--steps must be at least the model's window of {} with --first-window, got {}",
          spec.net.window, options.steps);
}

}  // namespace

TrajectoryInfo rollout_info(const ModelSpec& spec, const RolloutOptions& options) {
  TrajectoryInfo info;
  info.members = options.members;
  info.steps = options.steps / options.every + 1;
  info.state_shape = spec.state_shape;
  info.dt = spec.dt * static_cast<double>(options.every);
  info.system = spec.system;
  info.boundary = spec.boundary;
  info.seed = options.seed;
  info.fields = spec.fields;
  info.first_member = options.first_member;
  info.branches = options.branches;
  return info;
}

void calibrate_rollout(TransitionModel& model, const TrajectoryReader& initial,
                       const RolloutOptions& options) {
  const ModelSpec& spec = model.spec();
  check(spec, initial, options);
  const std::int64_t count = std::min(kCalibrationMembers, initial.info().members);
  const Tensor states = read_initial(initial, {}, 0, count, /*given=*/1, /*pinned=*/false);
  // One at a time: that fits into any memory, and a second is soon over.
  Stepper stepper(model, options.seed, /*rows=*/1, /*graph=*/false);
  model.backbone().calibrate([&] {
    for (std::int64_t i = 0; i < count; ++i) {
      const Tensor window = padded_window(states.narrow(0, i, 1), spec.net.window);
      stepper.load(i, window.to(model.device()), /*time=*/0);
      for (std::int64_t t = 0; t < kCalibrationSteps; ++t) stepper.advance();
    }
  });
}

StepCheck check_rollout(const TransitionModel& model, const TrajectoryReader& initial,
                        const RolloutOptions& options) {
  const ModelSpec& spec = model.spec();
  check(spec, initial, options);
  RolloutOptions recorded = options;
  recorded.graph = true;
  Steppers steppers = steppers_for(model, recorded);
  const std::int64_t rows = steppers.front().rows(), first = options.first_member / rows * rows;
  const std::int64_t given = given_states(spec, options);
  const Tensor states = read_initial(initial, options, first, rows, given, /*pinned=*/false);
  Stepper eager(model, options.seed, rows, /*graph=*/false);
  return check_step(model, steppers.front(), eager, first,
                    padded_window(states, spec.net.window).to(model.device()), given - 1);
}

TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const fs::path& out) {
  return roll_out_to_file(model, initial, options, keep_all(rollout_info(model.spec(), options)),
                          out);
}

TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const StateMap& map,
                                const fs::path& out) {
  const ModelSpec& spec = model.spec();
  check(spec, initial, options);
  TrajectoryInfo info = rollout_info(spec, options);
  const std::int64_t state_size = info.state_size();
  info.state_shape = map.shape;
  info.fields = map.fields;
  info.record = map.record;
  // Before anything is written and any other thread is at work: with little GPU memory the number
  // of rows, and with it the last bits, is settled here.
  Steppers steppers = steppers_for(model, options);
  const std::int64_t rows = steppers.front().rows();
  TrajectoryWriter writer(out, info, describe_work(model, initial, options, rows));
  if (writer.recorded() > 0) {
    spdlog::info("continuing at member {} of {}", writer.recorded(), info.members);
  }

  const bool gpu = model.device().is_cuda();
  const Cut cut = choose_cut(model, options, steppers, info.steps);
  const std::int64_t given = given_states(spec, options);
  const std::int64_t evaluations =
      std::max<std::int64_t>(0, (info.steps - 1) * options.every - (given - 1));
  Progress progress("rollout", "member-steps", info.members * evaluations,
                    writer.recorded() * evaluations);
  std::int64_t done = writer.recorded() * evaluations;
  std::mutex progress_mutex;
  const auto on_steps = [&](std::int64_t members) {
    const std::lock_guard lock(progress_mutex);
    progress.update(done += members);
  };

  PieceWriter pieces(writer, map,
                     {.state_size = state_size,
                      .capacity = std::min(cut.chunk, info.members) * cut.states * state_size,
                      .first_member = options.first_member,
                      .every = options.every,
                      .gpu = gpu});
  try {
    const std::int64_t end = options.first_member + info.members;
    for (std::int64_t first = options.first_member + writer.recorded(); first < end;) {
      // Chunks end where blocks end, wherever they begin.
      const std::int64_t next = std::min(end, first / rows * rows + cut.chunk);
      const std::int64_t count = next - first;
      Chunk chunk(steppers, first, read_initial(initial, options, first, count, given, gpu));
      for (std::int64_t step = 0; step < info.steps; step += cut.states) {
        Piece piece = pieces.take();
        piece.first = first - options.first_member;
        piece.count = count;
        piece.step = step;
        piece.states = std::min(cut.states, info.steps - step);
        piece.wait = chunk.advance(step * options.every, options.every,
                                   piece.view(spec.state_shape), on_steps);
        pieces.put(std::move(piece));
      }
      first = next;
    }
    pieces.finish();
  } catch (const Interrupted&) {
    pieces.finish();
    if (pieces.finished() == 0) throw Interrupted("rollout stopped; nothing was written");
    writer.record(pieces.finished());
    writer.keep();
    throw Interrupted(fmt::format("rollout stopped at member {} of {}; the same command continues",
                                  pieces.finished(), info.members));
  }
  writer.commit();
  return info;
}

}  // namespace slift
