#include "systems/system.h"

#include <algorithm>
#include <stdexcept>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "data/normaliser.h"
#ifdef SLIFT_WITH_CUDA
#include "systems/cuda/device.h"
#endif

namespace slift {

bool cuda_usable() {
#ifdef SLIFT_WITH_CUDA
  return cuda::device_count() > 0;
#else
  return false;
#endif
}

std::int64_t System::preferred_batch(Device) const {
  TrajectoryInfo info = describe();
  info.members = 256;
  return members_within(info, 32 << 20);
}

void System::simulate_cuda(const SimulationBatch&) {
  fail("{} does not run on CUDA; use --device cpu", describe().system);
}

void System::simulate(const SimulationBatch& batch, Device device) {
  const TrajectoryInfo info = describe();
  if (batch.first < 0 || batch.count < 0 ||
      static_cast<std::int64_t>(batch.states.size()) != batch.count * info.trajectory_size() ||
      (!batch.media.empty() &&
       static_cast<std::int64_t>(batch.media.size()) != batch.count * info.media_size())) {
    throw std::logic_error("System::simulate: range or buffer does not fit");
  }
  if (device == Device::kCuda) require(cuda_usable(), "no CUDA device, or a build without CUDA");
  if (batch.count == 0) return;
  if (device == Device::kCuda) {
    simulate_cuda(batch);
  } else {
    simulate_cpu(batch);
  }
}

TrajectoryInfo simulate_to_file(System& system, const SimulationOptions& options,
                                const std::filesystem::path& out) {
  TrajectoryInfo info = system.describe();
  info.members = options.members;
  info.seed = options.seed;
  if (options.media) {
    require(!info.media_shape.empty(), "{} has no media to store", info.system);
  } else {
    info.media_shape.clear();
    info.media_fields.clear();
  }
  require(options.branches == 1 || system.can_branch(),
          "--branches: {} cannot start several trajectories from one state", info.system);
  info.branches = options.branches;
  TrajectoryWriter writer(out, info);
  Progress progress("simulate", "traj", info.members);
  const std::int64_t batch =
      options.batch > 0 ? options.batch : system.preferred_batch(options.device);
  std::vector<float> states, media;
  for (std::int64_t first = 0; first < info.members; first += batch) {
    if (interrupt_requested()) throw Interrupted("simulation stopped; nothing was written");
    const std::int64_t count = std::min(batch, info.members - first);
    states.resize(static_cast<std::size_t>(count * info.trajectory_size()));
    media.resize(static_cast<std::size_t>(count * info.media_size()));
    system.simulate({options.seed, first, count, states, media, options.branches}, options.device);
    if (const auto bad = find_non_finite(states, info, first)) {
      throw std::runtime_error(fmt::format(
          "the simulation diverged: trajectory {} of {} is {} at step {}; a smaller time "
          "step may help",
          bad->trajectory, info.system, bad->value, bad->step));
    }
    writer.write(first, count, states);
    if (options.media) writer.write_media(first, count, media);
    progress.update(first + count);
  }
  writer.commit();
  return info;
}

}  // namespace slift
