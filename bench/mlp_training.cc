// Training iterations per second of the MLP on Duffing data: slift's own training loop, whole.
//   bench_mlp_training WIDTH LAYERS LABEL_DIMENSION BATCH ITERATIONS
// The peer is mlp_training.py, which also runs both and prints the ratio.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "systems/system.h"
#include "tensor/runtime.h"
#include "training_rate.h"

int main(int argc, char** argv) {
  using namespace slift;
  if (argc != 6) {
    fmt::print(stderr, "usage: {} WIDTH LAYERS LABEL_DIMENSION BATCH ITERATIONS\n", argv[0]);
    return 2;
  }
  Progress::set_enabled(false);
  keep_freed_memory();
  set_threads(0);
  const auto data = bench_data_path();
  simulate_to_file(*make_system("duffing"), {.members = 1024, .seed = 1}, data);
  TrainConfig config;
  config.path = data.string();
  config.net.width = std::atoll(argv[1]);
  config.net.layers = std::atoll(argv[2]);
  config.method.lifting.dimension = std::atoll(argv[3]);
  config.batch = std::atoll(argv[4]);
  config.iterations = 1 << 20;
  const std::int64_t timed = std::atoll(argv[5]);

  Ranks alone{RankInfo{}, at::kCPU};
  Trainer trainer(config, alone);
  training_rate(trainer, 10);
  const TrainingRate rate = training_rate(trainer, timed);
  std::filesystem::remove(data);
  const nlohmann::json result = {{"iterations_per_second", rate.iterations_per_second},
                                 {"loss", rate.last_loss}};
  fmt::print("{}\n", result.dump());
  return 0;
}
