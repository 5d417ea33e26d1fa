// What the report knows of a run: its evaluation and the files of its folder, read and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"
#include "report/score.h"

namespace slift {

struct LossCurve {
  std::vector<std::int64_t> step;
  std::vector<double> loss;
};

// The last reading of the gauge, one step from true windows: for steps t of a trajectory the
// variance across fresh labels over the squared error of their mean.
struct GaugeCurve {
  std::string verdict;  // empty if the log has no reading
  double pooled = 0;    // on held-out windows where there are any, else on training windows
  bool is_held_out = false;
  std::vector<std::int64_t> t;
  std::vector<double> training, held_out;  // by t; held_out may be empty
};

struct TrainingLog {
  LossCurve loss;
  GaugeCurve gauge;
};

// Generated over true standard deviation, averaged over the steps after the first: of the field
// where it is smallest, and where it is largest. NaN if no field of the truth varies.
struct Spread {
  double smallest = 0, largest = 0;
  std::string smallest_field, largest_field;
};

// Whether members are copies of training trajectories. What needs fresh truth to compare with may
// be missing: NaN, and no verdict.
struct MemorisationCheck {
  double value = 0, floor = 0;  // distance to the nearest one over its distance to its neighbour
  double copied = 0, copied_floor = 0;  // shares of members
  std::optional<bool> memorising;
};

struct RunData {
  std::string label;
  std::string config;         // config.toml as text; empty if there is none
  TrainingLog log;            // empty without metrics.jsonl
  nlohmann::json evaluation;  // known to have the parts named below, tables of the right shape
  std::string system;
  std::int64_t members = 0;              // of the ensemble and of each half of the truth
  std::int64_t steps = 0;                // states of a trajectory that were compared
  std::vector<std::string> fields;       // names of components or channels
  std::vector<ReportScore> scores;       // not empty, the first is the headline
  std::vector<ReportScore> conditional;  // of members with a common start; may be empty
  std::int64_t groups = 0;               // common starts
  Spread spread;
  std::optional<MemorisationCheck> nearest;
  std::filesystem::path generated, truth;  // trajectory files that exist

  const ReportScore& headline() const { return scores.front(); }
  // Else of fields. Trajectory files of records do not tell.
  bool of_vectors() const { return headline().metric == "sliced W2"; }
};

// Throws UserError naming the file that is missing or not what it should be.
RunData load_run(const ReportRun& run);

// Reads metrics.jsonl. A last line that was cut off is skipped, as are losses that are not finite.
// Where a resumed run repeats steps, the later lines win. At most `max_points` losses are
// returned: averages over equal stretches of lines.
TrainingLog load_log(const std::filesystem::path& file, std::size_t max_points);

}  // namespace slift
