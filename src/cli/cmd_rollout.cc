#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "core/errors.h"
#include "rollout/rollout.h"
#include "tensor/runtime.h"

namespace slift::cli {

void declare_rollout(CLI::App& app) {
  struct Options {
    std::string run, init, out, device = "cpu", precision = "fp32";
    RolloutOptions rollout;
  };
  auto o = std::make_shared<Options>();
  o->rollout.members = 1024;
  o->rollout.steps = 0;
  app.add_option("run", o->run, "Run folder or model file")->required();
  app.add_option("--init", o->init,
                 "Trajectory file whose first states the members start from; default: the "
                 "training data");
  app.add_option("--first", o->rollout.first_initial, "Start at this trajectory of --init")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--members,-m", o->rollout.members, "Members of the ensemble")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--steps,-n", o->rollout.steps, "Steps; default: as in --init")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  app.add_option("--seed,-s", o->rollout.seed, "Seed of the labels")->capture_default_str();
  app.add_option("--chunk", o->rollout.chunk,
                 "Members in memory at a time; changes no result; 0: what fits in 256 MiB")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--device", o->device, "cpu or cuda")->capture_default_str();
  app.add_option("--precision", o->precision, "fp32, or with cuda tf32 or bf16")
      ->capture_default_str();
  app.add_option("--out,-o", o->out, "Trajectory file; default RUN/rollout.h5");
  app.callback([o] {
    TransitionModel model = load_model(model_path(o->run));
    model.to(resolve_device(o->device));
    model.set_precision(o->precision);
    if (o->init.empty()) o->init = model.spec().data.value("path", "");
    require(!o->init.empty(), "--init: name a trajectory file to start from");
    const TrajectoryReader initial(o->init);
    if (o->rollout.steps == 0) o->rollout.steps = initial.info().steps - 1;
    require(o->rollout.steps >= 1, "--steps must be at least 1, {} has none to imitate", o->init);
    if (o->out.empty()) {
      require(std::filesystem::is_directory(o->run),
              "--out: is needed when a model file is given instead of a run folder");
      o->out = (std::filesystem::path(o->run) / "rollout.h5").string();
    }
    const TrajectoryInfo info = roll_out_to_file(model, initial, o->rollout, o->out);
    print_result({{"out", o->out},
                  {"members", info.members},
                  {"steps", info.steps - 1},
                  {"seed", o->rollout.seed},
                  {"init", o->init}},
                 fmt::format("{}: {}", o->out, info.describe_shape()));
  });
}

}  // namespace slift::cli
