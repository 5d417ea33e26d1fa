// Trains a transition model by regression on lifted transitions.
//
// A run is a folder: config.toml (resolved), metrics.jsonl, checkpoints/, model.safetensors at the
// end. Killed at any moment and resumed, a run on the CPU ends with the same bytes as one that was
// never stopped: every random number and the data order are functions of the iteration.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/loss.h"
#include "methods/transition_model.h"
#include "tensor/step_graph.h"
#include "training/batch_feed.h"
#include "training/config.h"
#include "training/gauge.h"
#include "training/optimizer.h"
#include "training/ranks.h"
#include "training/rollout_score.h"

namespace slift {

// The training loop's state in memory; knows nothing of run folders.
class Trainer {
 public:
  // `ranks` must outlive the trainer.
  Trainer(const TrainConfig& config, Ranks& ranks);

  // One optimiser step; returns the loss, a scalar on the device that the next step overwrites.
  // `phase` is the share of the run that is done, for the schedule; that of the leading rank
  // counts. `stop` says whether this process has been asked to stop, and afterwards whether any
  // rank has. On a GPU the host does not wait for the step.
  const Tensor& step(double phase, bool& stop);

  std::int64_t iteration() const { return iteration_; }
  void set_iteration(std::int64_t iteration);
  // Before clipping. Waits for the device.
  double last_gradient_norm() const { return optimizer_->gradient_norm(); }
  double last_rate() const { return rate_; }
  double last_phase() const { return phase_; }
  // The energy score of the last step's rollouts, if it had any. Waits for the device.
  std::optional<double> last_score() const;
  const TransitionModel& model() const { return *model_; }
  // Whether there is anything to step: a method without a network is trained by its fit() alone.
  bool has_steps() const { return optimizer_ != nullptr; }
  Optimizer& optimizer() { return *optimizer_; }
  const BatchFeed& feed() const { return *feed_; }

  // Reads the gauge of the weights that the model file gets: on training data and, if the config
  // has validation, on validation data.
  Gauge gauge();
  // Returns the loss on the gauge's training transitions.
  double loss_of_probe();

  // Calls `use` while the model has its averaged weights.
  void with_averaged_weights(const std::function<void(const TransitionModel&)>& use);

 private:
  void make_probes(std::int64_t members);
  TrainingBatch in_units_of_the_loss(const DeviceBatch& batch) const;
  // Of the staged batch, by the parts that train.accumulate asks for; `scored` adds what rollouts
  // say.
  void compute_loss_and_gradients(bool scored);
  // Adds the gradients of the mean loss of `rows` rows; loss_of(first, count) is that of some.
  Tensor add_gradients(std::int64_t rows,
                       const std::function<Tensor(std::int64_t, std::int64_t)>& loss_of);
  void add_gradients_of_score();
  // What a step does on the device, but for what ranks exchange.
  void update();
  // Averages gradients, loss and signals over all ranks.
  void exchange(bool& stop);
  // Tells the optimiser the rate of this step.
  void prepare_update();

  TrainConfig config_;
  Ranks& ranks_;
  at::Device device_;
  TrajectoryReader reader_;
  std::unique_ptr<TransitionModel> model_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<Optimizer> optimizer_;  // null without a network
  Loss loss_;
  StagedBatch staged_;  // with last_loss_ what changes from step to step, at fixed addresses
  Tensor last_loss_;
  Tensor clock_;  // [1] int64, the iteration as the device has it
  Tensor last_score_;
  StepGraph graph_, scored_graph_;  // of steps without and with rollouts
  std::optional<RolloutScore> score_;
  bool scored_ = false;  // whether the last step had rollouts
  GaugeProbe probe_;
  std::optional<GaugeProbe> held_out_probe_;
  std::int64_t iteration_ = 0;
  double rate_ = 0, phase_ = 0;
};

// Named numbers of a validation, in the order they are shown.
using Scores = std::vector<std::pair<std::string, double>>;

struct TrainOptions {
  std::filesystem::path run;
  bool resume = false;     // continue from the newest checkpoint, or start if there is none
  bool overwrite = false;  // remove the earlier run in the folder and what was made of its model
  // Judges the averaged weights every `validation.every` steps; may be empty.
  std::function<Scores(const TransitionModel&)> validate = {};
};

struct TrainResult {
  std::filesystem::path model;
  std::int64_t iterations = 0, parameters = 0;
  double loss = 0;     // mean over the last log interval, in scaled units
  double seconds = 0;  // spent in training, over all processes of a resumed run
  Gauge gauge;         // of the model
};

// Throws UserError for a bad config or data, or if another process trains in the folder,
// Interrupted after a signal (a checkpoint is left), std::runtime_error if the loss is no longer
// finite (naming step and last good checkpoint) or a rank is lost. Only the leading rank writes to
// the folder; all must see it.
TrainResult train(const TrainConfig& config, const TrainOptions& options);

}  // namespace slift
