// What writing costs a rollout: a UNet of configs/wave-small.toml with random weights on 32 x 32
// fields, all states stored against eight numbers of each, alternating.
//
//   bench_rollout [members] [steps] [repeats]
#include "rollout/rollout.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "core/random.h"
#include "tensor/runtime.h"

namespace {

using namespace slift;

TransitionModel random_unet() {
  ModelSpec spec;
  spec.net.kind = "unet";
  spec.net.window = 3;
  spec.net.widths = {32, 64, 128};
  spec.net.padding = "circular";
  spec.state_shape = {1, 32, 32};
  spec.method.lifting.dimension = 64;
  spec.normaliser = {{0}, {1}, {0.01f}};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  return model;
}

struct Cost {
  std::vector<double> wall, cpu;  // seconds, a value per repeat
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t usual) {
    return argc > i ? std::atoll(argv[i]) : usual;
  };
  const RolloutOptions options{.members = argument(1, 64), .steps = argument(2, 16)};
  keep_freed_memory();
  set_threads(0);
  Progress::set_enabled(false);
  const auto folder = std::filesystem::temp_directory_path() / "slift-bench-rollout";
  std::filesystem::create_directories(folder);
  const TransitionModel model = random_unet();
  TrajectoryInfo info = rollout_info(model.spec(), {.members = 1});
  info.steps = 1;
  std::vector<float> start(1024);
  fill_normal({1, Purpose::kInitialState, 0, 0}, start);
  TrajectoryWriter writer(folder / "start.h5", info);
  writer.write(0, 1, start);
  writer.commit();
  const TrajectoryReader initial(folder / "start.h5");

  const StateMap all = keep_all(info);
  const StateMap eight{{8},
                       {},
                       R"({"numbers": "means of eighths"})",
                       [](std::span<const float> state, std::span<float> kept) {
                         for (std::size_t i = 0; i < 8; ++i) {
                           float sum = 0;
                           for (const float x : state.subspan(i * 128, 128)) sum += x;
                           kept[i] = sum / 128;
                         }
                       }};
  Cost states, numbers;
  for (std::int64_t i = 0; i < argument(3, 5); ++i) {
    for (auto* cost : {&states, &numbers}) {
      const auto begin = std::chrono::steady_clock::now();
      const std::clock_t cpu = std::clock();
      roll_out_to_file(model, initial, options, cost == &states ? all : eight, folder / "out.h5");
      cost->cpu.push_back(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
      cost->wall.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::filesystem::remove_all(folder);
  std::cout << nlohmann::json{{"members", options.members},
                              {"steps", options.steps},
                              {"states_seconds", median(states.wall)},
                              {"numbers_seconds", median(numbers.wall)},
                              {"states_cpu_seconds", median(states.cpu)},
                              {"numbers_cpu_seconds", median(numbers.cpu)},
                              {"wall_ratio", median(states.wall) / median(numbers.wall)},
                              {"cpu_ratio", median(states.cpu) / median(numbers.cpu)}}
            << "\n";
}
