#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "systems/system.h"

namespace slift::cli {

void declare_simulate(CLI::App& app) {
  struct Options {
    std::string system, out;
    std::int64_t members = 1024;
    std::uint64_t seed = 0;
    std::vector<std::string> settings;
  };
  auto o = std::make_shared<Options>();
  std::string systems;
  for (const SystemEntry& entry : system_registry()) {
    systems += fmt::format("\n  {}: {}", entry.name, entry.summary);
  }
  app.add_option("system", o->system, "What to simulate:" + systems)->required();
  app.add_option("--out,-o", o->out, "Trajectory file to write")->required();
  app.add_option("--members,-m", o->members, "Trajectories")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--seed,-s", o->seed, "Seed")->capture_default_str();
  app.add_option("--set", o->settings, "Parameter of the system, as key=value");
  app.callback([o] {
    const auto system = make_system(o->system);
    ConfigSchema schema = system->schema();
    for (const std::string& setting : o->settings) schema.apply_setting(setting);
    const TrajectoryInfo info = simulate_to_file(*system, o->members, o->seed, o->out);
    print_result(
        {{"out", o->out},
         {"members", info.members},
         {"steps", info.steps},
         {"state_shape", info.state_shape},
         {"parameters", schema.to_json()}},
        fmt::format("{}: {} trajectories, {}", o->out, info.members, info.describe_shape()));
  });
}

}  // namespace slift::cli
