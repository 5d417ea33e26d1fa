// What the benches of training share.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "training/trainer.h"

namespace slift {

// A name in the temporary folder that no other bench has.
inline std::filesystem::path bench_data_path() {
  return std::filesystem::temp_directory_path() /
         fmt::format("slift-bench-{}.h5",
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

struct TrainingRate {
  double iterations_per_second = 0, last_loss = 0;
};

// Of `iterations` steps at the start of the schedule.
inline TrainingRate training_rate(Trainer& trainer, std::int64_t iterations) {
  TrainingRate rate;
  bool stop = false;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < iterations; ++i) {
    rate.last_loss = trainer.step(0, stop).item<double>();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  rate.iterations_per_second = static_cast<double>(iterations) / seconds.count();
  return rate;
}

}  // namespace slift
