#include "training/trainer.h"

#include <torch/autograd.h>

#include "core/errors.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

TransitionModel build_model(const TrainConfig& config, const TrajectoryReader& reader,
                            std::int64_t members) {
  const TrajectoryInfo& info = reader.info();
  ModelSpec spec;
  spec.net = config.net;
  spec.state_shape = info.state_shape;
  spec.label_dimension = config.label_dimension;
  spec.label_kind = config.label_kind;
  spec.normaliser = fit_normaliser(reader, members);
  spec.system = info.system;
  spec.boundary = info.boundary;
  spec.dt = info.dt;
  spec.fields = info.fields;
  spec.data = {
      {"path", config.path}, {"members", members}, {"steps", info.steps}, {"seed", info.seed}};
  TrainConfig copy = config;
  spec.config = copy.schema().to_json();
  TransitionModel model(std::move(spec));
  model.backbone().initialise(static_cast<std::uint64_t>(config.seed));
  return model;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config)
    : config_(config), device_(resolve_device(config.device)), reader_(config.path) {
  const std::int64_t available = reader_.info().members;
  require(config.members <= available, "data.members = {}: {} has only {} trajectories",
          config.members, config.path, available);
  const std::int64_t members = config.members > 0 ? config.members : available;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  sampler_ = std::make_unique<TransitionSampler>(reader_, members, config.net.window, seed,
                                                 config.memory_mb << 20);
  model_ = std::make_unique<TransitionModel>(build_model(config, reader_, members));
  model_->to(device_);
  optimizer_ = std::make_unique<Optimizer>(model_->backbone().parameters(), config);
  labels_ = {seed, config.label_dimension, parse_label_kind(config.label_kind)};
}

Tensor Trainer::step() {
  sampler_->fill(iteration_, config_.batch, batch_);
  std::vector<std::int64_t> state = {config_.batch};
  state.insert(state.end(), reader_.info().state_shape.begin(), reader_.info().state_shape.end());
  std::vector<std::int64_t> windows = state;
  windows.insert(windows.begin() + 1, config_.net.window);
  const Tensor window = at::from_blob(batch_.window.data(), windows, at::kFloat).to(device_);
  const Tensor next = at::from_blob(batch_.next.data(), state, at::kFloat).to(device_);
  const Tensor transition =
      at::from_blob(batch_.transition.data(), {config_.batch}, at::kLong).to(device_);

  const Tensor output = model_->scaled_output(window, labels_.for_transitions(transition));
  const Tensor loss = at::mse_loss(output, model_->scaled_target(window, next));
  loss.backward();
  gradient_norm_ =
      optimizer_->step(config_.lr * schedule(iteration_, config_.warmup, config_.iterations));
  ++iteration_;
  return loss.detach();
}

}  // namespace slift
