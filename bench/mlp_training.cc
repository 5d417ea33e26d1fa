// Training iterations per second of the MLP on Duffing data: slift's own training loop, whole.
//   bench_mlp_training WIDTH LAYERS LABEL_DIMENSION BATCH ITERATIONS
// The peer is mlp_training.py, which also runs both and prints the ratio.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "systems/system.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

int main(int argc, char** argv) {
  using namespace slift;
  if (argc != 6) {
    fmt::print(stderr, "usage: {} WIDTH LAYERS LABEL_DIMENSION BATCH ITERATIONS\n", argv[0]);
    return 2;
  }
  Progress::set_enabled(false);
  keep_freed_memory();
  set_threads(0);
  const auto data =
      std::filesystem::temp_directory_path() /
      fmt::format("slift-bench-{}.h5", std::chrono::steady_clock::now().time_since_epoch().count());
  simulate_to_file(*make_system("duffing"), {.members = 1024, .seed = 1}, data);
  TrainConfig config;
  config.path = data.string();
  config.net.width = std::atoll(argv[1]);
  config.net.layers = std::atoll(argv[2]);
  config.label_dimension = std::atoll(argv[3]);
  config.batch = std::atoll(argv[4]);
  config.iterations = 1 << 20;
  const std::int64_t timed = std::atoll(argv[5]);

  Ranks alone{RankInfo{}, at::kCPU};
  Trainer trainer(config, alone);
  bool stop = false;
  for (int i = 0; i < 10; ++i) trainer.step(0, stop);
  const auto start = std::chrono::steady_clock::now();
  double loss = 0;
  for (std::int64_t i = 0; i < timed; ++i) loss = trainer.step(0, stop).item<double>();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::filesystem::remove(data);
  const nlohmann::json result = {{"iterations_per_second", static_cast<double>(timed) / seconds},
                                 {"loss", loss}};
  fmt::print("{}\n", result.dump());
  return 0;
}
