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

enum class Device { kCpu, kCuda };

// Whether this build and this machine can run on CUDA.
bool cuda_usable();

// Trajectories first .. first+count-1 of a seed, and where they go.
struct SimulationBatch {
  std::uint64_t seed = 0;
  std::int64_t first = 0, count = 0;
  std::span<float> states;    // [count, steps, state]
  std::span<float> media;     // [count, media]; empty when they are not asked for
  std::int64_t branches = 1;  // trajectories i of the same i / branches share their first state
};

class System {
 public:
  virtual ~System() = default;

  // The parameters, for `--set` and the docs; points into this object.
  virtual ConfigSchema schema() = 0;

  // Shape, time step and names of what simulate() writes; members is 0. Throws UserError if the
  // parameters do not fit together.
  virtual TrajectoryInfo describe() const = 0;

  // Whether trajectories can share their first state and differ afterwards, as branches need.
  virtual bool can_branch() const { return false; }

  // How many trajectories to simulate at once: enough to keep the device busy, few enough to bound
  // memory and to keep the progress line moving.
  virtual std::int64_t preferred_batch(Device device) const;

  // Throws UserError if the parameters do not fit together, or if `device` cannot be used.
  void simulate(const SimulationBatch& batch, Device device = Device::kCpu);

 private:
  virtual void simulate_cpu(const SimulationBatch& batch) = 0;
  virtual void simulate_cuda(const SimulationBatch& batch);  // UserError unless overridden
};

struct SystemEntry {
  std::string name, summary;
  std::function<std::unique_ptr<System>()> make;
  std::vector<std::string> quick = {};  // settings for a trial run of milliseconds, as key=value
};

// All systems; drives `slift simulate --help` and the tests.
const std::vector<SystemEntry>& system_registry();

// Throws UserError naming the nearest system if `name` is unknown.
std::unique_ptr<System> make_system(const std::string& name);

struct SimulationOptions {
  std::int64_t members = 1024;
  std::uint64_t seed = 0;
  Device device = Device::kCpu;
  std::int64_t batch = 0;     // trajectories at once; 0: the system's preferred batch
  bool media = false;         // also store the media, if the system has any
  std::int64_t branches = 1;  // consecutive trajectories that share their first state
};

// Simulates into a file, batch by batch, with a progress line: memory is bounded by the batch.
// Ctrl-C and failures leave nothing behind. Throws std::runtime_error naming trajectory and step if
// a state is not finite.
TrajectoryInfo simulate_to_file(System& system, const SimulationOptions& options,
                                const std::filesystem::path& out);

}  // namespace slift
