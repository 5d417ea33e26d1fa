#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "core/progress.h"
#include "studies/demo.h"

namespace slift::cli {

void declare_demo(CLI::App& app) {
  struct Options {
    std::string out = "runs/demo", device = "cpu";
  };
  auto o = std::make_shared<Options>();
  app.add_option("--device", o->device, "cpu or cuda")->capture_default_str();
  app.add_option("--out,-o", o->out, "Folder for data, runs and report")->capture_default_str();
  app.callback([o] {
    const DemoResult r = run_demo(o->out, o->device);
    const auto row = [&r](const char* name, double value) {
      return fmt::format("{:<28} {:>10.4f} {:>9.2f}\n", name, value, value / r.floor);
    };
    nlohmann::json waves = nlohmann::json::array();
    std::string wave_rows;
    for (const Score& score : r.waves) {
      waves.push_back(score.to_json());
      wave_rows +=
          fmt::format("{:<50} {:>10.4f} {:>9.2f}\n", score.title(), score.value, score.ratio());
    }
    print_result(
        {{"seconds", r.seconds},
         {"floor", r.floor},
         {"lifted", r.lifted},
         {"deterministic", r.deterministic},
         {"lifted_ratio", r.lifted / r.floor},
         {"deterministic_ratio", r.deterministic / r.floor},
         {"report", r.report.string()},
         {"waves", waves},
         {"wave_report", r.wave_report.string()}},
        fmt::format("\n{:<28} {:>10} {:>9}\n", "Duffing, 4096 vs 4096", "sliced W2", "x floor") +
            row("truth vs truth (floor)", r.floor) + row("lifted model", r.lifted) +
            row("deterministic baseline", r.deterministic) +
            fmt::format("\n{:<50} {:>10} {:>9}\n", "waves, 256 vs 256", "distance", "x floor") +
            wave_rows +
            fmt::format("\n{} for everything; look at {} and {}\n", format_duration(r.seconds),
                        r.report.string(), r.wave_report.string()));
  });
}

}  // namespace slift::cli
