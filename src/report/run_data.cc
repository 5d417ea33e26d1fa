#include "report/run_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMaxLossPoints = 1000;
constexpr double kNegligibleSpread = 1e-3;  // of the largest over time

// JSON has no NaN: the writer turns it into null.
double number_in(const json& value) { return value.is_number() ? value.get<double>() : kNaN; }

Distance distance_in(const json& d) {
  Distance result{number_in(d.at("value")),
                  number_in(d.at("floor")),
                  number_in(d.at("ratio")),
                  kNaN,
                  kNaN,
                  kNaN,
                  kNaN};
  if (d.contains("interval")) {
    result.low = number_in(d.at("interval").at(0));
    result.high = number_in(d.at("interval").at(1));
  }
  if (d.contains("ratio_interval")) {
    result.ratio_low = number_in(d.at("ratio_interval").at(0));
    result.ratio_high = number_in(d.at("ratio_interval").at(1));
  }
  return result;
}

// Mean over the steps after the first of generated over true std. Steps where the truth hardly
// varies are left out; NaN if there are no others.
double spread_of_field(const json& generated, const json& truth, std::size_t field) {
  double largest = 0;
  for (std::size_t t = 1; t < truth.size(); ++t) {
    largest = std::max(largest, number_in(truth[t].at(field)));
  }
  double sum = 0, count = 0;
  for (std::size_t t = 1; t < truth.size(); ++t) {
    const double true_std = number_in(truth[t].at(field));
    if (!(true_std > kNegligibleSpread * largest)) continue;
    sum += number_in(generated[t].at(field)) / true_std;
    count += 1;
  }
  return count > 0 ? sum / count : kNaN;
}

Spread spread_in(const json& moments, const std::vector<std::string>& fields) {
  const json& truth = moments.at("truth").at("std");
  const json& generated = moments.at("generated").at("std");
  Spread spread{kNaN, kNaN, "", ""};
  for (std::size_t c = 0; c < fields.size(); ++c) {
    const double ratio = spread_of_field(generated, truth, c);
    if (!std::isfinite(ratio)) continue;
    if (!(spread.smallest <= ratio)) spread.smallest = ratio, spread.smallest_field = fields[c];
    if (!(spread.largest >= ratio)) spread.largest = ratio, spread.largest_field = fields[c];
  }
  return spread;
}

// Paths in evaluation.json are as the user gave them, perhaps from another working folder.
fs::path find_trajectories(const std::string& named, const fs::path& folder, const char* role) {
  for (const fs::path& path :
       {fs::path(named), folder / named, folder / fs::path(named).filename()}) {
    if (fs::is_regular_file(path)) return path;
  }
  fail(
      "{}: no such file; {} names it as the {} trajectories (run `slift evaluate` again if it "
      "moved)",
      named, (folder / "evaluation.json").string(), role);
}

void read_evaluation(const fs::path& file, RunData& run) {
  const std::string name = file.string();
  require(fs::exists(file), "{}: no such file; run `slift evaluate {}` first", name,
          file.parent_path().string());
  try {
    run.evaluation = json::parse(read_file(file));
    const json& e = run.evaluation;
    require(e.is_object() && e.value("format", "") == "slift-evaluation" && e.at("version") == 1,
            "{}: not an evaluation that this version of slift can read (format slift-evaluation, "
            "version 1)",
            name);
    run.system = e.at("system").get<std::string>();
    run.quantity = e.at("quantity").get<std::string>();
    run.members = e.at("members").get<std::int64_t>();
    run.sliced = distance_in(e.at("sliced_w2"));
    run.exact = {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
    if (e.contains("exact_w2")) {
      run.exact = distance_in(e.at("exact_w2"));
      run.exact_points = e.at("exact_w2").at("points").get<std::int64_t>();
    }
    const json& moments = e.at("moments");
    run.fields = moments.at("fields").get<std::vector<std::string>>();
    require(moments.at("time").size() >= 2 && !run.fields.empty(),
            "{}: moments need at least 2 times and 1 field", name);
    for (const char* side : {"truth", "generated"}) {
      for (const char* moment : {"mean", "std"}) {
        const json& table = moments.at(side).at(moment);
        require(table.size() == moments.at("time").size() &&
                    std::all_of(table.begin(), table.end(),
                                [&](const json& row) { return row.size() == run.fields.size(); }),
                "{}: moments.{}.{} is not [time][field]", name, side, moment);
      }
    }
    run.spread = spread_in(moments, run.fields);
  } catch (const json::exception& error) {
    fail("{}: not a readable evaluation: {}", name, error.what());
  }
}

}  // namespace

LossCurve load_losses(const fs::path& file, std::size_t max_points) {
  LossCurve all;
  std::istringstream lines(read_file(file));
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_discarded() && lines.eof()) break;  // cut off in the middle of a write
    require(entry.is_object() && entry.contains("step") && entry["step"].is_number(),
            "{}: line {} is not a JSON object with a step", file.string(), number);
    const auto step = entry["step"].get<std::int64_t>();
    const double loss = entry.contains("loss") ? number_in(entry["loss"]) : kNaN;
    while (!all.step.empty() && all.step.back() >= step) {
      all.step.pop_back();
      all.loss.pop_back();
    }
    if (!std::isfinite(loss)) continue;
    all.step.push_back(step);
    all.loss.push_back(loss);
  }
  const std::size_t stretch = (all.step.size() + max_points - 1) / max_points;
  if (stretch <= 1) return all;
  LossCurve thinned;
  for (std::size_t first = 0; first < all.step.size(); first += stretch) {
    const std::size_t last = std::min(first + stretch, all.step.size()) - 1;
    double sum = 0;
    for (std::size_t i = first; i <= last; ++i) sum += all.loss[i];
    thinned.step.push_back(all.step[last]);
    thinned.loss.push_back(sum / static_cast<double>(last - first + 1));
  }
  return thinned;
}

RunData load_run(const ReportRun& run) {
  RunData data;
  data.label = run.label;
  read_evaluation(run.folder / "evaluation.json", data);
  data.config = read_file(run.folder / "config.toml");
  const fs::path metrics = run.folder / "metrics.jsonl";
  if (fs::exists(metrics)) data.loss = load_losses(metrics, kMaxLossPoints);
  try {
    data.generated = find_trajectories(data.evaluation.at("generated").get<std::string>(),
                                       run.folder, "generated");
    data.truth =
        find_trajectories(data.evaluation.at("truth").get<std::string>(), run.folder, "true");
  } catch (const json::exception& error) {
    fail("{}: not a readable evaluation: {}", (run.folder / "evaluation.json").string(),
         error.what());
  }
  return data;
}

}  // namespace slift
