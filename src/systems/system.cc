#include "systems/system.h"

#include <algorithm>
#include <stdexcept>

#include "core/interrupt.h"
#include "core/progress.h"

namespace slift {

void System::simulate(std::uint64_t seed, std::int64_t first, std::int64_t count,
                      std::span<float> out) {
  if (first < 0 || count < 0 ||
      static_cast<std::int64_t>(out.size()) != count * describe().trajectory_size()) {
    throw std::logic_error("System::simulate: range or buffer does not fit");
  }
  if (count > 0) simulate_impl(seed, first, count, out);
}

TrajectoryInfo simulate_to_file(System& system, std::int64_t members, std::uint64_t seed,
                                const std::filesystem::path& out) {
  TrajectoryInfo info = system.describe();
  info.members = members;
  info.seed = seed;
  TrajectoryWriter writer(out, info);
  Progress progress("simulate", "traj", members);
  const std::int64_t chunk = std::min<std::int64_t>(members_within(info, 32 << 20), 256);
  std::vector<float> buffer;
  for (std::int64_t first = 0; first < members; first += chunk) {
    if (interrupt_requested()) throw Interrupted("simulation stopped; nothing was written");
    const std::int64_t count = std::min(chunk, members - first);
    buffer.resize(static_cast<std::size_t>(count * info.trajectory_size()));
    system.simulate(seed, first, count, buffer);
    writer.write(first, count, buffer);
    progress.update(first + count);
  }
  writer.commit();
  return info;
}

}  // namespace slift
