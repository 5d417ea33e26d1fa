// The run folder around a Trainer: resolved config, logs, checkpoints, resume.
#include <chrono>
#include <cmath>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/file_lock.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "tensor/runtime.h"
#include "training/checkpoint.h"
#include "training/run_log.h"
#include "training/same_data.h"
#include "training/trainer.h"

namespace slift {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// For --overwrite: removes what belongs to the old model, also what other commands made of it, and
// nothing else. config.toml goes last: killed in between, the folder still holds a run.
void remove_old_run(const TrainConfig& config, const fs::path& run, CheckpointFolder& checkpoints) {
  constexpr const char* kNames[] = {"model.safetensors",
                                    "metrics.jsonl",
                                    "validation.h5",
                                    "validation.h5.partial",
                                    "validation.h5.partial.journal",
                                    "rollout.h5",
                                    "rollout.h5.partial",
                                    "rollout.h5.partial.journal",
                                    "evaluation.json",
                                    "report.html",
                                    "config.toml"};
  for (const char* name : kNames) {
    for (const std::string& data : {config.path, config.validation_path}) {
      std::error_code absent;
      require(!fs::equivalent(run / name, data, absent),
              "{}: --overwrite would remove it, and the new run needs it", data);
    }
  }
  checkpoints.clear();
  for (const fs::path& events : EventFile::all_in(run)) fs::remove(events);
  for (const char* name : kNames) fs::remove(run / name);
}

void prepare_folder(const TrainConfig& config, const TrainOptions& options,
                    CheckpointFolder& checkpoints) {
  const fs::path saved = options.run / "config.toml";
  if (fs::exists(saved)) {
    require(options.resume || options.overwrite,
            "{}: already holds a run; give --resume, --overwrite or another --out",
            options.run.string());
    if (options.resume) {
      TrainConfig started, now = config;
      started.schema().apply_file(saved);
      now.schema().require_same_results(started.schema(), "--resume");
      return;
    }
    remove_old_run(config, options.run, checkpoints);
  }
  TrainConfig copy = config;
  write_file_atomically(saved, copy.schema().to_toml());
}

// Time spent in training, over all processes of a run.
class Stopwatch {
 public:
  explicit Stopwatch(double before) : before_(before) {}
  double seconds() const {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - start_;
    return before_ + now.count();
  }

 private:
  double before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

json to_json(const GaugeReading& g) {
  json object = {{"fresh", g.fresh},
                 {"spread", g.spread},
                 {"conditional", g.conditional},
                 {"variance", g.variance}};
  if (g.has_fitted()) object["fitted"] = g.fitted;
  return object;
}

// Training transitions first, what was held out inside.
json to_json(const Gauge& gauge) {
  json object = to_json(gauge.training.pooled);
  object["verdict"] = gauge.verdict();
  object["residual_correlation"] = gauge.judged().residual_correlation;
  if (gauge.held_out) object["held_out"] = to_json(gauge.held_out->pooled);
  for (std::size_t i = 0; i < gauge.steps.size(); ++i) {
    json step = to_json(gauge.training.at_step[i]);
    step["t"] = gauge.steps[i];
    if (gauge.held_out) step["held_out"] = to_json(gauge.held_out->at_step[i]);
    object["steps"].push_back(step);
  }
  return object;
}

class Run {
 public:
  Run(const TrainConfig& config, const TrainOptions& options, Ranks& ranks)
      : config_(config),
        options_(options),
        ranks_(ranks),
        trainer_(config, ranks),
        checkpoints_(options.run) {
    if (ranks.leads()) {
      lock_.emplace(
          options.run / "train.lock",
          fmt::format("{}: another slift is training in this folder", options.run.string()));
      prepare_folder(config, options, checkpoints_);
      checkpoints_.remove_unfinished();
    }
    ranks.wait_for_all();
    const json counters = load_newest_checkpoint();
    watch_.emplace(counters.value("seconds", 0.0));
    phase_ = counters.value("phase", 0.0);
    if (ranks.leads()) log_.emplace(options.run, counters.value("log_bytes", std::uint64_t{0}));
    pending_ = at::zeros({config.log_every}, at::TensorOptions(trainer_.model().device()));
  }

  TrainResult execute() {
    TrainResult result;
    result.parameters = trainer_.model().parameter_count();
    if (ranks_.size() > 1) spdlog::info("rank {} of {}", ranks_.rank(), ranks_.size());
    const Method& method = trainer_.model().method();
    spdlog::info(
        "training {} ({}) on {} transitions of {}{}: {} parameters, {} random numbers a step",
        config_.method.kind, trainer_.has_steps() ? config_.net.kind : "no network",
        trainer_.feed().sampler().transitions(), config_.path,
        trainer_.feed().on_gpu() ? " (on the GPU)" : "", result.parameters, method.numbers());
    if (trainer_.has_steps()) {
      const bool timed = config_.minutes > 0;
      Progress progress(
          "training", timed ? "s" : "it",
          timed ? static_cast<std::int64_t>(60 * config_.minutes) : config_.iterations,
          done_so_far());
      while (!finished()) {
        step();
        progress.update(done_so_far(), note());
      }
    }
    result.gauge = trainer_.gauge();
    if (!trainer_.has_steps()) log_fit(result.gauge);
    save();
    result.model = options_.run / "model.safetensors";
    if (ranks_.leads()) save_model(result.model, trainer_.model());
    result.iterations = trainer_.iteration();
    result.loss = last_loss_;
    result.seconds = watch_->seconds();
    return result;
  }

 private:
  // The counters of the newest checkpoint, whose weights are loaded; empty if there is none.
  json load_newest_checkpoint() {
    const auto newest = options_.resume ? checkpoints_.newest() : std::nullopt;
    if (!newest) return json::object();
    require_same_data(read_model_spec(*newest / "model.safetensors"), trainer_.model().spec(),
                      options_.run.string());
    const TrainingState state = CheckpointFolder::load(*newest);
    const json& c = state.counters;
    try {
      trainer_.set_iteration(c.at("iteration").get<std::int64_t>());
      sum_ = c.at("loss_sum").get<double>();
      counted_ = c.at("loss_count").get<std::int64_t>();
      last_loss_ = c.at("last_loss").is_null() ? last_loss_ : c.at("last_loss").get<double>();
      c.at("log_bytes").get<std::uint64_t>();
      c.at("seconds").get<double>();
    } catch (const json::exception& error) {
      fail("{}: broken counters: {}", newest->string(), error.what());
    }
    if (trainer_.has_steps()) {
      trainer_.optimizer().load_state(state.tensors, trainer_.iteration(), newest->string());
    }
    spdlog::info("resuming {} at step {}", options_.run.string(), trainer_.iteration());
    return c;
  }

  // The share of the run that is done: of its time if that is limited, else of its iterations.
  double next_phase() const {
    return config_.minutes > 0 ? watch_->seconds() / (60 * config_.minutes)
                               : static_cast<double>(trainer_.iteration()) /
                                     static_cast<double>(config_.iterations);
  }
  // All ranks must agree: in time by the phase they used last.
  bool finished() const {
    return config_.minutes > 0 ? phase_ >= 1 : trainer_.iteration() >= config_.iterations;
  }
  std::int64_t done_so_far() const {
    return config_.minutes > 0 ? static_cast<std::int64_t>(watch_->seconds())
                               : trainer_.iteration();
  }
  bool due(std::int64_t every) const { return every > 0 && trainer_.iteration() % every == 0; }

  std::string note() const {
    if (std::isnan(last_loss_)) return "";
    const std::string loss = fmt::format("loss {:.3e}", last_loss_);
    return config_.minutes > 0 ? fmt::format("step {}  {}", trainer_.iteration(), loss) : loss;
  }

  void step() {
    bool stop = interrupt_requested();
    pending_[waiting_++].copy_(trainer_.step(next_phase(), stop));
    phase_ = trainer_.last_phase();
    const bool last = finished();
    const bool validates = options_.validate && (due(config_.validate_every) || last);
    const bool gauges = due(config_.gauge_every) || last;
    // A GPU works on while losses wait; the CPU has them at once.
    const bool logs = due(config_.log_every) || gauges || validates;
    if (logs || !pending_.is_cuda() || waiting_ == pending_.size(0)) collect_losses();
    if (logs) write_log(gauges, validates);
    if (stop) {
      save();
      throw Interrupted(
          fmt::format("training stopped at step {}; continue with --resume", trainer_.iteration()));
    }
    if (due(config_.checkpoint_every)) save();
  }

  // Adds the losses of the last steps to the interval's sum, in the order of the steps.
  void collect_losses() {
    const Tensor losses = pending_.narrow(0, 0, waiting_).to(at::kCPU, at::kDouble);
    const double* loss = losses.data_ptr<double>();
    for (std::int64_t i = 0; i < waiting_; ++i) {
      if (!std::isfinite(loss[i])) {
        stop_diverged(trainer_.iteration() - waiting_ + i + 1,
                      fmt::format("the loss is {}", loss[i]));
      }
      sum_ += loss[i];
    }
    counted_ += waiting_;
    waiting_ = 0;
  }

  // The one line of a method without a network.
  void log_fit(const Gauge& gauge) {
    last_loss_ = trainer_.loss_of_probe();
    if (!ranks_.leads()) return;
    log_->write({{"step", 0},
                 {"loss", last_loss_},
                 {"seconds", watch_->seconds()},
                 {"gauge", to_json(gauge)}});
  }

  void write_log(bool gauges, bool validates) {
    last_loss_ = sum_ / static_cast<double>(counted_);
    sum_ = 0;
    counted_ = 0;
    if (!ranks_.leads()) return;
    json line = {{"step", trainer_.iteration()},
                 {"loss", last_loss_},
                 {"lr", trainer_.last_rate()},
                 {"gradient_norm", trainer_.last_gradient_norm()},
                 {"seconds", watch_->seconds()}};
    if (const auto score = trainer_.last_score()) line["score"] = *score;
    if (gauges) line["gauge"] = to_json(trainer_.gauge());
    if (validates) {
      trainer_.with_averaged_weights([&](const TransitionModel& model) {
        for (const auto& [name, score] : options_.validate(model)) line["validation"][name] = score;
      });
      if (line.contains("validation")) {
        spdlog::info("step {}: {}", trainer_.iteration(), line["validation"].dump());
      }
    }
    log_->write(line);
  }

  [[noreturn]] void stop_diverged(std::int64_t step, const std::string& what) {
    const auto good = checkpoints_.newest();
    throw std::runtime_error(fmt::format(
        "training diverged at step {}: {}; last good checkpoint: {}; a lower optim.lr may help",
        step, what, good ? good->string() : "none"));
  }

  void save() {
    if (waiting_ > 0) collect_losses();
    if (!ranks_.leads()) return;
    TrainingState state{
        trainer_.has_steps() ? trainer_.optimizer().state() : std::map<std::string, Tensor>(),
        {{"iteration", trainer_.iteration()},
         {"loss_sum", sum_},
         {"loss_count", counted_},
         {"log_bytes", log_->bytes()},
         {"seconds", watch_->seconds()},
         {"phase", phase_},
         {"last_loss", last_loss_}}};
    // The loss of a step is that of the weights before it: these may be worse.
    for (const auto& [name, tensor] : state.tensors) {
      if (!at::isfinite(tensor).all().item<bool>()) {
        stop_diverged(trainer_.iteration(), "the weights are not finite");
      }
    }
    log_->sync();  // before the checkpoint that counts its bytes
    checkpoints_.save(trainer_.iteration(), trainer_.model(), state);
  }

  TrainConfig config_;
  TrainOptions options_;
  Ranks& ranks_;
  Trainer trainer_;
  CheckpointFolder checkpoints_;
  std::optional<FileLock> lock_;  // of the leading rank
  std::optional<Stopwatch> watch_;
  std::optional<RunLog> log_;  // of the leading rank
  double phase_ = 0, sum_ = 0, last_loss_ = std::nan("");
  std::int64_t counted_ = 0;
  Tensor pending_;  // losses of the last `waiting_` steps, on the device
  std::int64_t waiting_ = 0;
};

}  // namespace

TrainResult train(const TrainConfig& config, const TrainOptions& options) {
  require(!config.path.empty(), "data.path is not set: name a trajectory file in the config");
  const RankInfo info = RankInfo::from_environment();
  Ranks ranks(info, resolve_device(config.device, info.local_rank));
  std::optional<QuietProgress> quiet;
  if (!ranks.leads()) quiet.emplace();
  return Run(config, options, ranks).execute();
}

}  // namespace slift
