// What the report knows of a run: the files of its folder, read and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/report.h"

namespace slift {

struct LossCurve {
  std::vector<std::int64_t> step;
  std::vector<double> loss;
};

// A distance to the truth with what is needed to judge it. Numbers that are not there are NaN.
struct Distance {
  double value = 0, floor = 0, ratio = 0;
  double low = 0, high = 0;              // 95 % interval of value
  double ratio_low = 0, ratio_high = 0;  // 95 % interval of ratio
};

// Generated over true standard deviation, averaged over the steps after the first: of the field
// where it is smallest, and where it is largest. NaN if no field of the truth varies.
struct Spread {
  double smallest = 0, largest = 0;
  std::string smallest_field, largest_field;
};

struct RunData {
  std::string label;
  std::string config;         // config.toml as text
  LossCurve loss;             // empty without metrics.jsonl
  nlohmann::json evaluation;  // evaluation.json, known to have the parts named below
  std::string system, quantity;
  std::int64_t members = 0;         // of the ensemble and of each half of the truth
  std::vector<std::string> fields;  // names of components or channels
  Distance sliced, exact;           // exact.value is NaN if it was not computed
  std::int64_t exact_points = 0;
  Spread spread;
  std::filesystem::path generated, truth;  // trajectory files that exist
};

// Throws UserError naming the file that is missing or not what it should be.
RunData load_run(const ReportRun& run);

// Reads metrics.jsonl. A last line that was cut off is skipped, as are losses that are not finite.
// Where a resumed run repeats steps, the later lines win. At most `max_points` points are
// returned: averages over equal stretches of lines.
LossCurve load_losses(const std::filesystem::path& file, std::size_t max_points);

}  // namespace slift
