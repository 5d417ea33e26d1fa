#include "studies/demo.h"

#include <chrono>

#include "core/atomic_file.h"
#include "core/log.h"
#include "metrics/evaluation.h"
#include "report/report.h"
#include "rollout/rollout.h"
#include "systems/system.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kTrainMembers = 1024;
constexpr std::int64_t kMembers = 4096;  // of the ensembles and of each half of the truth

TrainConfig demo_config(const fs::path& data, std::int64_t label_dimension,
                        const std::string& device) {
  TrainConfig config;
  config.device = device;
  config.path = data.string();
  config.label_dimension = label_dimension;
  config.net.width = 256;
  config.net.layers = 3;
  config.lr = 5e-3;
  config.batch = 1024;
  config.iterations = 4000;
  return config;
}

double train_and_evaluate(const fs::path& run, const TrainConfig& config,
                          const TrajectoryReader& truth, double* floor) {
  train(config, {.run = run, .resume = false, .overwrite = true});
  TransitionModel model = load_model(run / "model.safetensors");
  model.to(resolve_device(config.device));
  // Members start where the second half of the truth does, which also gives the floor.
  RolloutOptions options;
  options.members = kMembers;
  options.steps = truth.info().steps - 1;
  options.first_initial = kMembers;
  roll_out_to_file(model, truth, options, run / "rollout.h5");
  const Evaluation evaluation = evaluate(TrajectoryReader(run / "rollout.h5"), truth, {});
  write_file_atomically(run / "evaluation.json", evaluation.to_json().dump(2) + "\n");
  *floor = evaluation.sliced.floor_mean;
  return evaluation.sliced.mean;
}

}  // namespace

DemoResult run_demo(const fs::path& folder, const std::string& device) {
  const auto start = std::chrono::steady_clock::now();
  const auto system = make_system("duffing");
  const fs::path train_data = folder / "train.h5", test_data = folder / "test.h5";
  spdlog::info("simulating {} Duffing trajectories to learn from and {} to test against",
               kTrainMembers, 2 * kMembers);
  simulate_to_file(*system, kTrainMembers, 1, train_data);
  simulate_to_file(*system, 2 * kMembers, 2, test_data);
  const TrajectoryReader truth(test_data);

  DemoResult result;
  result.lifted = train_and_evaluate(folder / "lifted", demo_config(train_data, 32, device), truth,
                                     &result.floor);
  spdlog::info("the same network without labels, the deterministic baseline");
  result.deterministic = train_and_evaluate(
      folder / "deterministic", demo_config(train_data, 0, device), truth, &result.floor);
  result.report = folder / "report.html";
  write_report({{"lifted", folder / "lifted"}, {"deterministic", folder / "deterministic"}},
               result.report);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace slift
