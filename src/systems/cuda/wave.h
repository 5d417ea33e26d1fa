// Many waves at once on a CUDA device, by the scheme of wave_solver.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace slift::cuda {

class WaveBatch {
 public:
  // How many waves advance together, be they asked for or not: cuFFT may compute differently for
  // another number, and a trajectory must not depend on the batch it comes in.
  static constexpr std::int64_t kWaves = 64;

  struct Settings {
    std::int64_t grid = 0, stored_grid = 0;  // the second divides the first
    double dt = 0;
    std::vector<std::int64_t> stored_steps;  // ascending
    std::vector<float> start;                // u at time 0, [grid, grid]
  };

  // Plans and allocates; throws std::runtime_error if the device cannot.
  explicit WaveBatch(const Settings& settings);
  ~WaveBatch();

  // From speeds [kWaves, grid, grid] the first `count` waves as states
  // [count, stored steps, stored_grid, stored_grid]; count <= kWaves follows from the size of
  // `states`. Waits for the device; throws std::runtime_error if it fails.
  void run(std::span<const float> speeds, std::span<float> states);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slift::cuda
