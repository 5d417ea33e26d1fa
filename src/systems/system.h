// A stochastic system that can be simulated: parameters in, trajectories out.
//
// Trajectory i is a function of (parameters, seed, i) alone: batch size, thread count and order
// never change it. To add a system, see docs/adding.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/config.h"
#include "data/trajectories.h"

namespace slift {

class System {
 public:
  virtual ~System() = default;

  // The parameters, for `--set` and the docs; points into this object.
  virtual ConfigSchema schema() = 0;

  // Shape, time step and names of what simulate() writes; members is 0. Throws UserError if the
  // parameters do not fit together.
  virtual TrajectoryInfo describe() const = 0;

  // Simulates trajectories first .. first+count-1 into out[count, steps, state].
  void simulate(std::uint64_t seed, std::int64_t first, std::int64_t count, std::span<float> out);

 private:
  virtual void simulate_impl(std::uint64_t seed, std::int64_t first, std::int64_t count,
                             std::span<float> out) = 0;
};

struct SystemEntry {
  std::string name, summary;
  std::function<std::unique_ptr<System>()> make;
};

// All systems; drives `slift simulate --help` and the tests.
const std::vector<SystemEntry>& system_registry();

// Throws UserError naming the nearest system if `name` is unknown.
std::unique_ptr<System> make_system(const std::string& name);

// Simulates `members` trajectories into a file, in pieces, with a progress line. Ctrl-C and
// failures leave nothing behind.
TrajectoryInfo simulate_to_file(System& system, std::int64_t members, std::uint64_t seed,
                                const std::filesystem::path& out);

}  // namespace slift
