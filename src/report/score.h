// A score of evaluation.json (docs/formats.md) as the report reads it, and its name in words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace slift {

// Numbers that are not there are NaN: a floor needs a second truth, an interval a bootstrap.
struct ReportScore {
  std::string name;    // what is compared: "state", "mean |x|"
  std::string metric;  // how: "sliced W2", "fair CRPS"
  double value = 0, floor = 0, ratio = 0;
  double low = 0, high = 0;                     // 95 % interval of value
  double ratio_low = 0, ratio_high = 0;         // 95 % interval of ratio
  double points = 0;                            // members of exact W2
  double never_generated = 0, never_truth = 0;  // shares of members that never cross
};

// Metrics that are judged in a way of their own (verdict.h).
inline constexpr const char* kFairCrps = "fair CRPS";
inline constexpr const char* kSpreadSkill = "spread-skill ratio";

// A number of evaluation.json: JSON has no NaN, null stands for it.
double number_in(const nlohmann::json& value);

// Reads a list of scores. Throws a JSON exception where one has no name, metric or numbers.
std::vector<ReportScore> read_scores(const nlohmann::json& list);

// Null if there is none.
const ReportScore* find_score(const std::vector<ReportScore>& scores, const std::string& metric,
                              const std::string& name);

// "sliced W2 of the state", "W2 of mean |x| (WIM)".
std::string name_in_words(const ReportScore& score);

// What its numbers are measured in: "units of x", "1 is right"; empty for an unknown metric.
std::string unit_in_words(const ReportScore& score);

// "1.23", "0.00012", "n/a" for NaN.
std::string short_number(double value);
// Of a share: "3.2 %".
std::string percent(double share);

}  // namespace slift
