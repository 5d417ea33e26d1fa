#include "studies/demo.h"

#include <chrono>

#include "core/atomic_file.h"
#include "core/log.h"
#include "metrics/evaluation.h"
#include "report/report.h"
#include "rollout/rollout.h"
#include "studies/assets.h"
#include "systems/system.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kTrainMembers = 1024;
constexpr std::int64_t kMembers = 4096;  // of the ensembles and of each half of the truth
constexpr std::int64_t kWaves = 256,
                       kWaveStates = 17;  // the same; states as the model learned them

TrainConfig demo_config(const fs::path& data, const std::string& device) {
  TrainConfig config;
  config.schema().apply_text(std::string(assets::duffing_small_toml), "duffing-small.toml");
  config.path = data.string();
  config.device = device;
  return config;
}

double train_and_evaluate(const fs::path& run, const TrainConfig& config,
                          const TrajectoryReader& initial, const TrajectoryReader& truth,
                          double* floor) {
  train(config, {.run = run, .resume = false, .overwrite = true});
  TransitionModel model = load_model(run / "model.safetensors");
  model.to(resolve_device(config.device));
  RolloutOptions options;
  options.members = kMembers;
  options.steps = truth.info().steps - 1;
  roll_out_to_file(model, initial, options, run / "rollout.h5");
  const Evaluation evaluation = evaluate(TrajectoryReader(run / "rollout.h5"), truth, {});
  write_file_atomically(run / "evaluation.json", evaluation.to_json().dump(2) + "\n");
  *floor = evaluation.headline().floor;
  return evaluation.headline().value;
}

// Everything of the waves' part, below `folder`.
void show_waves(const fs::path& folder, const std::string& device, DemoResult& result) {
  const auto system = make_system("wave");
  system->schema().apply_json(
      {{"grid", 64}, {"stored_grid", 32}, {"stored", kWaveStates}, {"inner_dt", 0.016}},
      "the demo's waves");
  const fs::path test_data = folder / "test.h5";
  spdlog::info("simulating {} waves that the model has not seen", 2 * kWaves);
  simulate_to_file(*system, {.members = 2 * kWaves, .seed = 3}, test_data);
  const TrajectoryReader truth(test_data);
  write_file_atomically(folder / "model.safetensors", assets::wave_tiny_model);
  TransitionModel model = load_model(folder / "model.safetensors");
  model.to(resolve_device(device));
  RolloutOptions options;
  options.members = kWaves;
  options.steps = kWaveStates - 1;
  roll_out_to_file(model, truth, options, folder / "rollout.h5");
  const Evaluation evaluation = evaluate(TrajectoryReader(folder / "rollout.h5"), truth, {});
  write_file_atomically(folder / "evaluation.json", evaluation.to_json().dump(2) + "\n");
  result.waves = {*evaluation.find("W2", "mean |x|"), *evaluation.find("W2 of crossing times"),
                  *evaluation.find("log10 spectrum")};
  result.wave_report = folder / "report.html";
  write_report({{"waves", folder}}, result.wave_report);
}

}  // namespace

DemoResult run_demo(const fs::path& folder, const std::string& device) {
  const auto start = std::chrono::steady_clock::now();
  const auto system = make_system("duffing");
  const fs::path train_data = folder / "train.h5", test_data = folder / "test.h5",
                 start_data = folder / "start.h5";
  spdlog::info("simulating {} Duffing trajectories to learn from and {} to test against",
               kTrainMembers, 2 * kMembers);
  simulate_to_file(*system, {.members = kTrainMembers, .seed = 1}, train_data);
  simulate_to_file(*system, {.members = 2 * kMembers, .seed = 2}, test_data);
  // Members start from states that are in neither set: shared ones would flatter the first steps.
  simulate_to_file(*system, {.members = kMembers, .seed = 3}, start_data);
  const TrajectoryReader truth(test_data), initial(start_data);

  DemoResult result;
  TrainConfig config = demo_config(train_data, device);
  result.lifted = train_and_evaluate(folder / "lifted", config, initial, truth, &result.floor);
  spdlog::info("the same network without labels, the deterministic baseline");
  config.method.lifting.dimension = 0;
  result.deterministic =
      train_and_evaluate(folder / "deterministic", config, initial, truth, &result.floor);
  result.report = folder / "report.html";
  write_report({{"lifted", folder / "lifted"}, {"deterministic", folder / "deterministic"}},
               result.report);
  show_waves(folder / "waves", device, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace slift
