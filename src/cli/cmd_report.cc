#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "core/errors.h"
#include "report/report.h"

namespace slift::cli {

void declare_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string out;
  };
  auto o = std::make_shared<Options>();
  app.add_option("runs", o->runs, "Evaluated run folders; the first is the subject")->required();
  app.add_option("--out,-o", o->out, "HTML file; default report.html in the first run folder");
  app.callback([o] {
    namespace fs = std::filesystem;
    std::vector<ReportRun> runs;
    for (const std::string& run : o->runs) {
      runs.push_back({fs::path(run).lexically_normal().filename().string(), run});
      if (runs.back().label.empty()) runs.back().label = run;
    }
    const fs::path out =
        o->out.empty() ? fs::path(o->runs.front()) / "report.html" : fs::path(o->out);
    // Whatever else a run folder holds has another ending.
    require(out.extension() == ".html", "{}: a report must end in .html", out.string());
    write_report(runs, out);
    print_result({{"out", out.string()}}, out.string());
  });
}

}  // namespace slift::cli
