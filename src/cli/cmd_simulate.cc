#include <fmt/format.h>

#include <limits>
#include <memory>

#include "cli/command.h"
#include "report/preview.h"
#include "systems/system.h"
#include "tensor/runtime.h"

namespace slift::cli {

void declare_simulate(CLI::App& app) {
  struct Options {
    std::string system, out, device = "cpu";
    SimulationOptions run;
    std::vector<std::string> settings, previews;
  };
  auto o = std::make_shared<Options>();
  std::string systems;
  for (const SystemEntry& entry : system_registry()) {
    systems += fmt::format("\n  {}: {}", entry.name, entry.summary);
  }
  app.add_option("system", o->system, "What to simulate:" + systems)->required();
  app.add_option("--out,-o", o->out, "Trajectory file to write")->required();
  app.add_option("--members,-m", o->run.members, "Trajectories")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--seed,-s", o->run.seed, "Seed")
      ->capture_default_str()
      ->check(seed_up_to(std::numeric_limits<std::uint64_t>::max()));
  app.add_option("--set", o->settings,
                 "Parameter of the system, as key=value; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--device", o->device, "cpu or cuda")->capture_default_str();
  app.add_option("--batch", o->run.batch, "Trajectories at once; 0: what suits the system")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  app.add_option("--branches", o->run.branches,
                 "Consecutive trajectories that share their first state")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--media", o->run.media,
               "Also store what a trajectory runs in (speed, permeability)");
  add_preview_option(app, o->previews);
  app.callback([o] {
    for (const std::string& preview : o->previews) check_preview_path(preview, o->out);
    o->run.device = resolve_device(o->device).is_cuda() ? Device::kCuda : Device::kCpu;
    const auto system = make_system(o->system);
    ConfigSchema schema = system->schema();
    for (const std::string& setting : o->settings) schema.apply_setting(setting);
    const TrajectoryInfo info = simulate_to_file(*system, o->run, o->out);
    std::string text =
        fmt::format("{}: {} trajectories, {}\n", o->out, info.members, info.describe_shape());
    for (const std::string& preview : o->previews) {
      write_preview(o->out, preview);
      text += fmt::format("{}: preview\n", preview);
    }
    print_result({{"out", o->out},
                  {"members", info.members},
                  {"steps", info.steps},
                  {"state_shape", info.state_shape},
                  {"parameters", schema.to_json()},
                  {"previews", o->previews}},
                 text);
  });
}

}  // namespace slift::cli
