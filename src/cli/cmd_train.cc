#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "core/progress.h"
#include "studies/validation.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

namespace slift::cli {
namespace {

// docs/config.md is this text.
constexpr const char* kKeysHeading =
    "# Configuration\n\n"
    "Every key of a training config, as `slift train --keys` prints it. Files are TOML; `--set\n"
    "section.key=value` overrides a key; an unknown key is an error that names the nearest one. "
    "The\n"
    "resolved config is saved as `config.toml` in the run folder and inside the model file.\n\n";

}  // namespace

void declare_train(CLI::App& app) {
  struct Options {
    std::string config, out, data, device;
    std::int64_t seed = -1;
    double minutes = -1;
    bool resume = false, overwrite = false;
    std::vector<std::string> settings;
  };
  auto o = std::make_shared<Options>();
  app.add_option("config", o->config, "TOML file (docs/config.md lists every key)")->required();
  app.add_option("--out,-o", o->out, "Run folder; default runs/<name of the config>");
  app.add_option("--data", o->data, "Training trajectories, in place of data.path");
  app.add_option("--device", o->device, "cpu or cuda, in place of train.device");
  app.add_option("--seed,-s", o->seed, "In place of the config's seed")
      ->check(seed_up_to(std::numeric_limits<std::int64_t>::max()));
  app.add_option("--minutes", o->minutes, "Time budget, in place of train.minutes")
      ->check(number_that("a number from 0 to 10^6", [](double x) { return x >= 0 && x <= 1e6; }));
  app.add_option("--set", o->settings, "Any key, as section.key=value; may be given several times")
      ->allow_extra_args(false);
  app.add_flag_callback(
      "--keys",
      [] {
        TrainConfig config;
        std::cout << kKeysHeading << config.schema().to_markdown();
        throw CLI::Success();
      },
      "Print every config key with default, rule and meaning");
  app.add_flag("--resume", o->resume, "Continue from the newest checkpoint, or start");
  app.add_flag("--overwrite", o->overwrite, "Replace a run that is in the folder already");
  app.callback([o] {
    TrainConfig config;
    ConfigSchema schema = config.schema();
    schema.apply_file(o->config);
    for (const std::string& setting : o->settings) schema.apply_setting(setting);
    if (!o->data.empty()) schema.apply_setting("data.path=" + o->data);
    if (!o->device.empty()) schema.apply_setting("train.device=" + o->device);
    if (o->seed >= 0) config.seed = o->seed;
    if (o->minutes >= 0) config.minutes = o->minutes;
    if (common_flags().threads > 0) config.threads = common_flags().threads;
    set_threads(config.threads);
    const std::string run =
        o->out.empty() ? "runs/" + std::filesystem::path(o->config).stem().string() : o->out;
    const TrainResult result =
        train(config, {run, o->resume, o->overwrite, make_validator(config, run)});
    if (RankInfo::from_environment().rank > 0) return;  // the leading rank speaks for all
    const Gauge& gauge = result.gauge;
    const GaugeReading& fit = gauge.training.pooled;
    std::string words = fmt::format("{}: loss {:.3e} after {} iterations, {}\n{}",
                                    result.model.string(), result.loss, result.iterations,
                                    format_duration(result.seconds), gauge.in_words());
    const LiftingConfig& lifting = config.method.lifting;
    const bool may_persist =
        config.method.kind == "lifting" && lifting.dimension > 0 && lifting.persistent == 0;
    if (gauge.is_frozen() && may_persist) {
      words += fmt::format(
          "\nwhat is missing at a step is missing at the next (correlation {:.2g}): the randomness "
          "looks frozen, try --set lifting.persistent={}",
          gauge.judged().residual_correlation, lifting.dimension);
    }
    print_result({{"run", run},
                  {"model", result.model.string()},
                  {"iterations", result.iterations},
                  {"parameters", result.parameters},
                  {"loss", result.loss},
                  {"gauge", gauge.verdict()},
                  {"fitted_share", fit.fitted_share()},
                  {"fitted_ratio", fit.fitted_ratio()},
                  {"spread_ratio", gauge.judged().pooled.spread_ratio()},
                  {"judged_on", gauge.held_out ? "validation" : "training"},
                  {"residual_correlation", gauge.judged().residual_correlation},
                  {"seconds", result.seconds}},
                 words);
  });
}

}  // namespace slift::cli
