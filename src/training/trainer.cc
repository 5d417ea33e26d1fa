#include "training/trainer.h"

#include <torch/autograd.h>

#include <algorithm>

#include "core/errors.h"
#include "tensor/runtime.h"
#include "training/shards.h"

namespace slift {
namespace {

TransitionModel build_model(const TrainConfig& config, const TrajectoryReader& reader,
                            std::int64_t members) {
  const TrajectoryInfo& info = reader.info();
  ModelSpec spec;
  spec.net = config.net;
  spec.state_shape = info.state_shape;
  spec.method = config.method;
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
  model.fit(reader, members);
  if (model.network() != nullptr) {
    model.backbone().initialise(static_cast<std::uint64_t>(config.seed));
  }
  return model;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, Ranks& ranks)
    : config_(config),
      ranks_(ranks),
      device_(ranks.device()),
      reader_(config.path),
      loss_(make_loss(config.loss)),
      last_loss_(at::zeros({}, at::TensorOptions(device_))),
      clock_(at::zeros({1}, at::TensorOptions(device_).dtype(at::kLong))),
      last_score_(at::zeros({}, at::TensorOptions(device_))),
      graph_(device_),
      scored_graph_(device_) {
  require(reader_.info().record.empty(),
          "{}: holds records (`slift rollout --no-states`), not states", config.path);
  const std::int64_t available = reader_.info().members;
  require(config.members <= available, "data.members = {}: {} has only {} trajectories",
          config.members, config.path, available);
  const std::int64_t parts = config.accumulate * ranks.size();
  require(config.batch % parts == 0,
          "train.batch = {} must be a multiple of train.accumulate = {} times the {} ranks",
          config.batch, config.accumulate, ranks.size());
  const std::int64_t members = config.members > 0 ? config.members : available;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  feed_ = std::make_unique<BatchFeed>(reader_, members, config.net.window, seed,
                                      FeedLimits{config.memory_mb << 20, config.device_mb << 20},
                                      device_);
  model_ = std::make_unique<TransitionModel>(build_model(config, reader_, members));
  model_->to(device_);
  model_->set_precision(config.precision);
  if (model_->network() != nullptr) {
    optimizer_ = std::make_unique<Optimizer>(model_->backbone().weights(), config);
  }
  if (config.score.from < 1 && has_steps()) {
    require(config.score.members % ranks.size() == 0,
            "score.members = {} must be a multiple of the {} ranks", config.score.members,
            ranks.size());
    const std::int64_t megabytes = device_.is_cuda() ? config.device_mb : config.memory_mb;
    score_.emplace(config, reader_, members, megabytes << 20, *model_);
  }
  make_probes(members);
}

std::optional<double> Trainer::last_score() const {
  return scored_ ? std::optional(last_score_.item<double>()) : std::nullopt;
}

void Trainer::make_probes(std::int64_t members) {
  const std::int64_t window = config_.net.window;
  std::int64_t transitions = reader_.info().steps - 1;
  if (config_.validate_every > 0 && !config_.validation_path.empty()) {
    const TrajectoryReader validation(config_.validation_path);
    const TrajectoryInfo& info = validation.info();
    require(info.record.empty() && info.state_shape == reader_.info().state_shape && info.steps > 1,
            "{}: is not of states like those of {}", config_.validation_path, config_.path);
    transitions = std::min(transitions, info.steps - 1);
    held_out_probe_ =
        make_probe(validation, info.members, probed_steps(transitions), window, device_);
  }
  probe_ = make_probe(reader_, members, probed_steps(transitions), window, device_);
}

void Trainer::set_iteration(std::int64_t iteration) {
  iteration_ = iteration;
  clock_.fill_(iteration);
}

const Tensor& Trainer::step(double phase, bool& stop) {
  const std::int64_t rows = config_.batch / ranks_.size();
  feed_->stage(iteration_ * config_.batch + ranks_.rank() * rows, rows, staged_);
  // Takes the phase that came with the last gradients, for clocks of ranks differ.
  const double decided = ranks_.connected() && config_.minutes > 0 ? phase_ : phase;
  scored_ = score_ && decided >= config_.score.from;
  phase_ = phase;
  if (scored_) score_->stage(iteration_);
  if (ranks_.connected()) {
    compute_loss_and_gradients(scored_);
    exchange(stop);
    prepare_update();
    update();
  } else {
    prepare_update();
    const auto body = [this] {
      compute_loss_and_gradients(scored_);
      update();
    };
    StepGraph& graph = scored_ ? scored_graph_ : graph_;
    config_.graph ? graph.run(body) : body();
  }
  ++iteration_;
  return last_loss_;
}

TrainingBatch Trainer::in_units_of_the_loss(const DeviceBatch& batch) const {
  return model_->training_batch(batch.window, batch.next, batch.transition, clock_,
                                static_cast<std::uint64_t>(config_.seed));
}

void Trainer::update() {
  const torch::NoGradGuard no_grad;
  clock_.add_(1);
  optimizer_->update();
}

Tensor Trainer::add_gradients(std::int64_t rows,
                              const std::function<Tensor(std::int64_t, std::int64_t)>& loss_of) {
  if (device_.is_cpu()) {
    return backward_in_shards(model_->backbone().weights().masters(), rows,
                              rows_of_shard(rows, reader_.info().state_shape), loss_of);
  }
  const Tensor loss = loss_of(0, rows);
  loss.backward();
  return loss.detach();
}

void Trainer::compute_loss_and_gradients(bool scored) {
  const std::int64_t parts = config_.accumulate, rows = staged_.transition.size(0) / parts;
  Tensor total;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = part * rows;
    const Tensor loss = add_gradients(rows, [&](std::int64_t first, std::int64_t count) {
      const TrainingBatch batch =
          in_units_of_the_loss(feed_->assemble(staged_, begin + first, count));
      const Tensor of_rows = model_->method().loss(model_->network(), batch, loss_);
      return parts > 1 ? of_rows / static_cast<double>(parts) : of_rows;
    });
    if (parts > 1 || scored) optimizer_->gather_gradients();
    total = part == 0 ? loss : total + loss;
  }
  last_loss_.copy_(total);
  if (scored) add_gradients_of_score();
}

void Trainer::add_gradients_of_score() {
  // Rolls all members out on all ranks, for the score is of all of them; each follows its share.
  const std::int64_t share = score_->members() / ranks_.size();
  const ScoredSteps steps = score_->roll_out(ranks_.rank() * share, share);
  last_score_.copy_(steps.score);
  const std::int64_t rows = steps.window.size(0);
  const std::int64_t at_once = std::max<std::int64_t>(1, config_.batch / config_.accumulate);
  for (std::int64_t begin = 0; begin < rows; begin += at_once) {
    const std::int64_t part = std::min(at_once, rows - begin);
    // Undoes the means over these rows and over ranks: the score's derivative is a sum.
    const auto gain = static_cast<double>(part * ranks_.size());
    add_gradients(part, [&](std::int64_t first, std::int64_t count) {
      const auto some = [&](const Tensor& x) { return x.narrow(0, begin + first, count); };
      const Tensor next = model_->forward(some(steps.window), some(steps.numbers));
      return (next * some(steps.pull)).sum() * (gain / static_cast<double>(count));
    });
    optimizer_->gather_gradients();
  }
}

void Trainer::exchange(bool& stop) {
  torch::NoGradGuard no_grad;
  const auto ranks = static_cast<double>(ranks_.size());
  const double leads_with = ranks_.leads() ? ranks * phase_ : 0;
  const Tensor signals =
      at::tensor({static_cast<float>(leads_with), stop ? 1.0f : 0.0f}).to(device_);
  optimizer_->gather_gradients();
  std::vector<Tensor> shared = {last_loss_, signals};
  for (const Tensor& p : model_->backbone().weights().masters()) shared.push_back(p.grad());
  ranks_.average(shared);
  const Tensor heard = signals.to(at::kCPU);
  phase_ = heard[0].item<double>();
  stop = heard[1].item<double>() > 0;
}

void Trainer::prepare_update() {
  rate_ = config_.lr * schedule(iteration_, config_.warmup, phase_);
  optimizer_->prepare(rate_);
}

Gauge Trainer::gauge() {
  Gauge gauge;
  with_averaged_weights([&](const TransitionModel& model) {
    gauge = read_gauge(model, probe_, held_out_probe_ ? &*held_out_probe_ : nullptr,
                       static_cast<std::uint64_t>(config_.seed));
  });
  return gauge;
}

double Trainer::loss_of_probe() {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (const DeviceBatch& rows : probe_.transitions) {
    const TrainingBatch batch = in_units_of_the_loss(rows);
    sum += model_->method().loss(model_->network(), batch, loss_).item<double>();
  }
  return sum / static_cast<double>(probe_.transitions.size());
}

void Trainer::with_averaged_weights(const std::function<void(const TransitionModel&)>& use) {
  if (!has_steps()) return use(*model_);
  model_->backbone().weights().with_average([&] { use(*model_); });
}

}  // namespace slift
