#include "report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "data/trajectories.h"

namespace slift {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMaxLossPoints = 1000;
constexpr double kNegligibleSpread = 1e-3;  // of the largest over time

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

std::optional<MemorisationCheck> nearest_in(const json& evaluation) {
  if (!evaluation.contains("nearest")) return std::nullopt;
  const json& n = evaluation.at("nearest");
  MemorisationCheck check{number_in(n.at("value")), number_in(n.value("floor", json())),
                          number_in(n.at("copied")), number_in(n.value("copied_floor", json())),
                          std::nullopt};
  if (n.contains("memorising")) check.memorising = n.at("memorising").get<bool>();
  return check;
}

// `table` must be [rows][columns].
void require_table(const json& table, std::size_t rows, std::size_t columns,
                   const std::string& where) {
  require(table.is_array() && table.size() == rows &&
              std::all_of(table.begin(), table.end(),
                          [&](const json& row) { return row.size() == columns; }),
          "{} is not a table of {} rows and {} columns", where, rows, columns);
}

// What report.js draws without asking again.
void require_tables(const json& evaluation, const std::string& name) {
  const json& moments = evaluation.at("moments");
  const std::size_t times = moments.at("time").size(), fields = moments.at("fields").size();
  require(times >= 2 && fields >= 1, "{}: moments need at least 2 times and 1 field", name);
  for (const char* side : {"truth", "generated"}) {
    for (const char* moment : {"mean", "std"}) {
      require_table(moments.at(side).at(moment), times, fields,
                    fmt::format("{}: moments.{}.{}", name, side, moment));
    }
    if (evaluation.contains("quantiles")) {
      const json& quantiles = evaluation.at("quantiles");
      for (const json& table : quantiles.at("tables")) {
        require_table(table.at(side), quantiles.at("time").size(), quantiles.at("levels").size(),
                      fmt::format("{}: quantiles of {}, {}", name,
                                  table.at("name").get<std::string>(), side));
      }
    }
    for (const json& table : evaluation.value("spectra", json::array())) {
      require_table(
          table.at(side), table.at("time").size(), table.at("truth").at(0).size(),
          fmt::format("{}: spectra of {}, {}", name, table.at("field").get<std::string>(), side));
    }
  }
}

// Paths in an evaluation are as the user gave them, perhaps from another working folder.
fs::path find_trajectories(const std::string& named, const fs::path& evaluation, const char* role) {
  const fs::path folder = evaluation.parent_path();
  for (const fs::path& path :
       {fs::path(named), folder / named, folder / fs::path(named).filename()}) {
    if (fs::is_regular_file(path)) return path;
  }
  fail(
      "{}: no such file; {} names it as the {} trajectories (run `slift evaluate` again if it "
      "moved)",
      named, evaluation.string(), role);
}

// A rollout may have been repeated since: its pictures would stand beside scores of another one.
void require_current(const std::string& name, const RunData& run) {
  const TrajectoryReader generated(run.generated), truth(run.truth);
  const auto evaluated = [&](const char* key) {
    return run.evaluation.at("moments").at(key).get<std::int64_t>();
  };
  const std::int64_t steps = std::min(generated.info().steps, truth.info().steps);
  require(evaluated("generated_members") == generated.info().members && run.steps == steps,
          "{}: is of another rollout than {}: of {} members and {} steps, not {} and {}; run "
          "`slift evaluate` again",
          name, generated.path(), evaluated("generated_members"), run.steps,
          generated.info().members, steps);
  require(evaluated("truth_members") == truth.info().members,
          "{}: is of another truth than {}: of {} members, not {}; run `slift evaluate` again",
          name, truth.path(), evaluated("truth_members"), truth.info().members);
}

void read_evaluation(const ReportRun& source, RunData& run) {
  const bool own = source.evaluation.empty();
  const fs::path file = own ? source.folder / "evaluation.json" : source.evaluation;
  const std::string name = file.string();
  require(fs::exists(file), "{}: no such file; run `slift evaluate {}` first", name,
          file.parent_path().string());
  try {
    run.evaluation = json::parse(read_file(file));
    const json& e = run.evaluation;
    require(e.is_object() && e.value("format", "") == "slift-evaluation",
            "{}: not an evaluation that slift wrote (format slift-evaluation)", name);
    require(e.at("version") == 2, "{}: version must be 2, got {}; run `slift evaluate` again", name,
            e.at("version").dump());
    run.system = e.at("system").get<std::string>();
    run.members = e.at("members").get<std::int64_t>();
    run.scores = read_scores(e.at("scores"));
    require(!run.scores.empty(), "{}: has no scores", name);
    if (e.contains("conditional")) {
      run.conditional = read_scores(e.at("conditional").at("scores"));
      run.groups = e.at("conditional").at("groups").get<std::int64_t>();
    }
    require_tables(e, name);
    run.steps = std::ssize(e.at("moments").at("time"));
    run.fields = e.at("moments").at("fields").get<std::vector<std::string>>();
    run.spread = spread_in(e.at("moments"), run.fields);
    run.nearest = nearest_in(e);
    run.generated = find_trajectories(e.at("generated").get<std::string>(), file, "generated");
    run.truth = find_trajectories(e.at("truth").get<std::string>(), file, "true");
    // Any other was made just now, perhaps of fewer steps than there are.
    if (own) require_current(name, run);
  } catch (const json::exception& error) {
    fail("{}: not a readable evaluation: {}", name, error.what());
  }
}

// Takes the loss of a line of the log, in place of those from its step on.
void add_loss(const json& entry, LossCurve& curve) {
  const auto step = entry["step"].get<std::int64_t>();
  const double loss = entry.contains("loss") ? number_in(entry["loss"]) : kNaN;
  while (!curve.step.empty() && curve.step.back() >= step) {
    curve.step.pop_back();
    curve.loss.pop_back();
  }
  if (!std::isfinite(loss)) return;
  curve.step.push_back(step);
  curve.loss.push_back(loss);
}

LossCurve thinned(const LossCurve& all, std::size_t max_points) {
  const std::size_t stretch = (all.step.size() + max_points - 1) / max_points;
  if (stretch <= 1) return all;
  LossCurve curve;
  for (std::size_t first = 0; first < all.step.size(); first += stretch) {
    const std::size_t last = std::min(first + stretch, all.step.size()) - 1;
    double sum = 0;
    for (std::size_t i = first; i <= last; ++i) sum += all.loss[i];
    curve.step.push_back(all.step[last]);
    curve.loss.push_back(sum / static_cast<double>(last - first + 1));
  }
  return curve;
}

double spread_ratio_in(const json& reading) {
  return number_in(reading.at("spread")) / number_in(reading.at("conditional"));
}

GaugeCurve gauge_in(const json& gauge) {
  GaugeCurve curve;
  if (!gauge.contains("steps")) return curve;  // of slift before 0.2
  curve.verdict = gauge.at("verdict").get<std::string>();
  curve.is_held_out = gauge.contains("held_out");
  curve.pooled = spread_ratio_in(curve.is_held_out ? gauge.at("held_out") : gauge);
  for (const json& step : gauge.at("steps")) {
    curve.t.push_back(step.at("t").get<std::int64_t>());
    curve.training.push_back(spread_ratio_in(step));
    if (curve.is_held_out) curve.held_out.push_back(spread_ratio_in(step.at("held_out")));
  }
  return curve;
}

}  // namespace

TrainingLog load_log(const fs::path& file, std::size_t max_points) {
  TrainingLog log;
  std::istringstream lines(read_file(file));
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_discarded() && lines.eof()) break;  // cut off in the middle of a write
    require(entry.is_object() && entry.contains("step") && entry["step"].is_number(),
            "{}: line {} is not a JSON object with a step", file.string(), number);
    add_loss(entry, log.loss);
    if (!entry.contains("gauge")) continue;
    try {
      log.gauge = gauge_in(entry["gauge"]);
    } catch (const json::exception& error) {
      fail("{}: line {}: not a reading of the gauge: {}", file.string(), number, error.what());
    }
  }
  log.loss = thinned(log.loss, max_points);
  return log;
}

RunData load_run(const ReportRun& run) {
  RunData data;
  data.label = run.label;
  read_evaluation(run, data);
  const fs::path config = run.folder / "config.toml", metrics = run.folder / "metrics.jsonl";
  if (run.folder.empty()) return data;
  if (fs::exists(config)) data.config = read_file(config);
  if (fs::exists(metrics)) data.log = load_log(metrics, kMaxLossPoints);
  return data;
}

}  // namespace slift
