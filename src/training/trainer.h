// Trains a transition model by regression on lifted transitions.
//
// A run is a folder: config.toml (resolved), metrics.jsonl, checkpoints/, model.safetensors at the
// end. Killed at any moment and resumed, a run on the CPU ends with the same bytes as one that was
// never stopped: every random number and the data order are functions of the iteration.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/sampler.h"
#include "nets/transition_model.h"
#include "training/config.h"
#include "training/optimizer.h"

namespace slift {

// The training loop's state in memory; knows nothing of run folders.
class Trainer {
 public:
  explicit Trainer(const TrainConfig& config);

  // One optimiser step; returns the loss (a scalar tensor on the device).
  Tensor step();

  std::int64_t iteration() const { return iteration_; }
  double last_gradient_norm() const { return gradient_norm_; }
  const TransitionModel& model() const { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  const TransitionSampler& sampler() const { return *sampler_; }
  void set_iteration(std::int64_t iteration) { iteration_ = iteration; }

 private:
  TrainConfig config_;
  at::Device device_;
  TrajectoryReader reader_;
  std::unique_ptr<TransitionModel> model_;
  std::unique_ptr<TransitionSampler> sampler_;
  std::unique_ptr<Optimizer> optimizer_;
  LabelSource labels_;
  Batch batch_;
  std::int64_t iteration_ = 0;
  double gradient_norm_ = 0;
};

struct TrainOptions {
  std::filesystem::path run;
  bool resume = false;     // continue from the newest checkpoint, or start if there is none
  bool overwrite = false;  // remove what an earlier run left in the folder
};

struct TrainResult {
  std::filesystem::path model;
  std::int64_t iterations = 0, parameters = 0;
  double loss = 0;     // mean over the last log interval, in scaled units
  double seconds = 0;  // of this process
};

// Throws UserError for a bad config or data, Interrupted after a signal (a checkpoint is left),
// std::runtime_error if the loss is no longer finite (naming step and last good checkpoint).
TrainResult train(const TrainConfig& config, const TrainOptions& options);

}  // namespace slift
