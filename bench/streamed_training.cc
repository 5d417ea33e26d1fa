// What streaming costs: training iterations per second of configs/wave-tiny.toml with all data in
// memory and with a budget for a quarter of them, alternating, medians of five rounds.
//   bench_streamed_training CONFIG [ITERATIONS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "systems/system.h"
#include "tensor/runtime.h"
#include "training_rate.h"

int main(int argc, char** argv) {
  using namespace slift;
  if (argc < 2) {
    fmt::print(stderr, "usage: {} CONFIG [ITERATIONS]\n", argv[0]);
    return 2;
  }
  const std::int64_t iterations = argc > 2 ? std::atoll(argv[2]) : 60;
  keep_freed_memory();
  set_threads(0);
  const auto data = bench_data_path();
  const auto system = make_system("wave");
  for (const char* setting : {"grid=64", "stored_grid=32", "stored=17", "inner_dt=0.016"}) {
    system->schema().apply_setting(setting);
  }
  simulate_to_file(*system, {.members = 256, .seed = 1}, data);  // 17.8 MB
  TrainConfig config;
  config.schema().apply_file(argv[1]);
  config.path = data.string();
  config.score.from = 1;  // rollouts would hide what data cost

  Ranks alone{RankInfo{}, at::kCPU};
  const auto trainer = [&](std::int64_t memory_mb) {
    config.memory_mb = memory_mb;
    return std::make_unique<Trainer>(config, alone);
  };
  const auto resident = trainer(64), streamed = trainer(4);
  const auto rate = [&](Trainer& t) { return training_rate(t, iterations).iterations_per_second; };
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  rate(*resident), rate(*streamed);
  std::vector<double> in_memory, from_disk, ratios;
  for (int round = 0; round < 5; ++round) {
    in_memory.push_back(rate(*resident));
    from_disk.push_back(rate(*streamed));
    ratios.push_back(from_disk.back() / in_memory.back());
  }
  std::filesystem::remove(data);
  const nlohmann::json result = {{"resident_iterations_per_second", median(in_memory)},
                                 {"streamed_iterations_per_second", median(from_disk)},
                                 {"pool_members", streamed->feed().sampler().pool_members()},
                                 {"ratio", median(ratios)}};
  fmt::print("{}\n", result.dump());
  return 0;
}
