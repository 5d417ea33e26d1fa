// The run folder around a Trainer: resolved config, metrics.jsonl, checkpoints, resume.
#include <chrono>
#include <cmath>
#include <fstream>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "training/checkpoint.h"
#include "training/trainer.h"

namespace slift {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

class MetricsLog {
 public:
  // Keeps the first `bytes` of an earlier log: what a lost checkpoint interval wrote is dropped.
  MetricsLog(const fs::path& path, std::uint64_t bytes) : path_(path) {
    if (!fs::exists(path)) std::ofstream(path).flush();
    require(fs::exists(path), "{}: cannot write", path.string());
    require(fs::file_size(path) >= bytes, "{}: is shorter than its checkpoint says", path.string());
    fs::resize_file(path, bytes);
    out_.open(path, std::ios::app);
    require(out_.good(), "{}: cannot write", path.string());
  }
  void write(const json& line) {
    out_ << line.dump() << '\n';
    out_.flush();
    require(out_.good(), "{}: cannot write", path_.string());
  }
  std::uint64_t bytes() { return static_cast<std::uint64_t>(out_.tellp()); }

 private:
  fs::path path_;
  std::ofstream out_;
};

void prepare_folder(const TrainConfig& config, const TrainOptions& options) {
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
    for (const char* name : {"config.toml", "metrics.jsonl", "checkpoints", "model.safetensors"}) {
      fs::remove_all(options.run / name);
    }
  }
  TrainConfig copy = config;
  write_file_atomically(saved, copy.schema().to_toml());
}

}  // namespace

TrainResult train(const TrainConfig& config, const TrainOptions& options) {
  require(!config.path.empty(), "data.path is not set: name a trajectory file in the config");
  Trainer trainer(config);
  prepare_folder(config, options);
  CheckpointFolder checkpoints(options.run);

  double sum = 0, last_loss = std::nan("");
  std::int64_t counted = 0;
  std::uint64_t log_bytes = 0;
  if (const auto newest = options.resume ? checkpoints.newest() : std::nullopt) {
    const TrainingState state = CheckpointFolder::load(*newest);
    const json& c = state.counters;
    try {
      trainer.set_iteration(c.at("iteration").get<std::int64_t>());
      sum = c.at("loss_sum").get<double>();
      counted = c.at("loss_count").get<std::int64_t>();
      log_bytes = c.at("log_bytes").get<std::uint64_t>();
      last_loss = c.at("last_loss").is_null() ? last_loss : c.at("last_loss").get<double>();
    } catch (const json::exception& error) {
      fail("{}: broken counters: {}", newest->string(), error.what());
    }
    trainer.optimizer().load_state(state.tensors, trainer.iteration(), newest->string());
    spdlog::info("resuming {} at step {}", options.run.string(), trainer.iteration());
  }
  MetricsLog log(options.run / "metrics.jsonl", log_bytes);

  const auto stop_diverged = [&](const std::string& what) {
    const auto good = checkpoints.newest();
    throw std::runtime_error(fmt::format(
        "training diverged at step {}: {}; last good checkpoint: {}; a lower optim.lr may help",
        trainer.iteration(), what, good ? good->string() : "none"));
  };
  const auto save = [&] {
    TrainingState state{trainer.optimizer().state(),
                        {{"iteration", trainer.iteration()},
                         {"loss_sum", sum},
                         {"loss_count", counted},
                         {"log_bytes", log.bytes()},
                         {"last_loss", last_loss}}};
    // The loss of a step is that of the weights before it: these may be worse.
    for (const auto& [name, tensor] : state.tensors) {
      if (!at::isfinite(tensor).all().item<bool>()) stop_diverged("the weights are not finite");
    }
    checkpoints.save(trainer.iteration(), trainer.model(), trainer.optimizer().ema(), state);
  };

  TrainResult result;
  result.parameters = trainer.model().parameter_count();
  spdlog::info("training {} on {} transitions of {}: {} parameters, label dimension {}",
               config.net.kind, trainer.sampler().transitions(), config.path, result.parameters,
               config.label_dimension);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  {
    Progress progress("training", "it", config.iterations, trainer.iteration());
    while (trainer.iteration() < config.iterations) {
      const double loss = trainer.step().item<double>();
      const std::int64_t done = trainer.iteration();
      if (!std::isfinite(loss)) stop_diverged(fmt::format("the loss is {}", loss));
      sum += loss;
      ++counted;
      if (done % config.log_every == 0 || done == config.iterations) {
        last_loss = sum / static_cast<double>(counted);
        log.write({{"step", done},
                   {"loss", last_loss},
                   {"lr", config.lr * schedule(done - 1, config.warmup, config.iterations)},
                   {"gradient_norm", trainer.last_gradient_norm()},
                   {"seconds", elapsed()}});
        sum = 0;
        counted = 0;
      }
      progress.update(done, fmt::format("loss {:.3e}", std::isnan(last_loss) ? loss : last_loss));
      if (interrupt_requested()) {
        save();
        throw Interrupted(fmt::format("training stopped at step {}; continue with --resume", done));
      }
      if (done % config.checkpoint_every == 0) save();
    }
  }
  save();
  result.model = options.run / "model.safetensors";
  save_model(result.model, trainer.model(), trainer.optimizer().ema());
  result.iterations = trainer.iteration();
  result.loss = last_loss;
  result.seconds = elapsed();
  return result;
}

}  // namespace slift
