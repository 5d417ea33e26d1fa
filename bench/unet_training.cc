// Training iterations per second of the UNet on waves: slift's own training loop, whole. The net is
// that of configs/wave-small.toml on fields of 32 x 32 points.
//   bench_unet_training BATCH ITERATIONS [SAMPLE]
// SAMPLE is a safetensors file to write the weights to, and an input (`window`, `label`) with the
// net's output. The peer is unet_training.py, which also runs both and prints the ratio.
#include <fmt/format.h>
#include <torch/autograd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "systems/system.h"
#include "tensor/runtime.h"
#include "tensor/safetensors.h"
#include "training_rate.h"

namespace slift {
namespace {

void simulate_waves(const std::filesystem::path& path) {
  const auto system = make_system("wave");
  for (const char* setting : {"grid=64", "stored_grid=32", "stored=17", "inner_dt=0.016"}) {
    system->schema().apply_setting(setting);
  }
  simulate_to_file(*system, {.members = 256, .seed = 1}, path);
}

TrainConfig wave_small(const std::filesystem::path& data, std::int64_t batch) {
  TrainConfig config;
  config.path = data.string();
  config.method.lifting.dimension = 64;
  config.net.kind = "unet";
  config.net.window = 3;
  config.net.widths = {32, 64, 128};
  config.net.padding = "circular";
  config.batch = batch;
  return config;
}

void write_sample(const TransitionModel& model, const std::filesystem::path& path) {
  torch::NoGradGuard no_grad;
  SafeTensors sample;
  for (const auto& item : model.backbone().named_parameters()) {
    sample.tensors[item.key()] = item.value();
  }
  const Tensor window =
      at::arange(4 * 3 * 32 * 32, at::kFloat).mul(0.3).cos().view({4, 3, 1, 32, 32});
  const Tensor label = at::arange(4 * 64, at::kFloat).mul(0.7).sin().view({4, 64});
  sample.tensors["window"] = window;
  sample.tensors["label"] = label;
  sample.tensors["output"] = model.backbone().forward(window, label);
  write_safetensors(path, sample);
}

}  // namespace
}  // namespace slift

int main(int argc, char** argv) {
  using namespace slift;
  if (argc < 3) {
    fmt::print(stderr, "usage: {} BATCH ITERATIONS [SAMPLE]\n", argv[0]);
    return 2;
  }
  const std::int64_t batch = std::atoll(argv[1]), timed = std::atoll(argv[2]);
  Progress::set_enabled(false);
  keep_freed_memory();
  set_threads(0);
  const auto data = bench_data_path();
  simulate_waves(data);
  Ranks alone{RankInfo{}, at::kCPU};
  Trainer trainer(wave_small(data, batch), alone);
  if (argc > 3) write_sample(trainer.model(), argv[3]);

  training_rate(trainer, 3);
  const TrainingRate rate = training_rate(trainer, timed);
  std::filesystem::remove(data);
  const nlohmann::json result = {{"iterations_per_second", rate.iterations_per_second},
                                 {"parameters", trainer.model().parameter_count()},
                                 {"loss", rate.last_loss}};
  fmt::print("{}\n", result.dump());
  return 0;
}
