#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "core/atomic_file.h"
#include "data/import.h"

namespace slift::cli {

void declare_import(CLI::App& app) {
  struct Options {
    std::vector<std::string> sources;
    std::string out;
    ImportOptions import;
  };
  auto o = std::make_shared<Options>();
  app.add_option("sources", o->sources, ".npy or HDF5 files; their trajectories are appended")
      ->required();
  app.add_option("--out,-o", o->out, "Trajectory file to write")->required();
  app.add_option("--dataset", o->import.dataset, "HDF5: path of the data set, e.g. /run/u");
  app.add_option("--layout", o->import.layout,
                 "A letter per axis, outermost first: M member, T time, N component, C channel, "
                 "H row, W column. Default MTN, MTHW or MTCHW by rank");
  app.add_option("--dt", o->import.dt, "Time between states")
      ->capture_default_str()
      ->check(number_that("a finite number above 0",
                          [](double x) { return x > 0 && std::isfinite(x); }));
  app.add_option("--system", o->import.system, "Name of the system")->capture_default_str();
  app.add_option("--boundary", o->import.boundary, "Boundary of fields")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "periodic"}));
  app.add_option("--fields", o->import.fields, "Names of the components or channels")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.callback([o] {
    const std::vector<std::filesystem::path> sources(o->sources.begin(), o->sources.end());
    require_not_input(o->out, sources);
    const TrajectoryInfo info = import_trajectories(sources, o->out, o->import);
    print_result({{"out", o->out},
                  {"members", info.members},
                  {"steps", info.steps},
                  {"state_shape", info.state_shape}},
                 fmt::format("{}: {}", o->out, info.describe_shape()));
  });
}

}  // namespace slift::cli
