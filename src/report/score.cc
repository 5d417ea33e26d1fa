#include "report/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace slift {

using nlohmann::json;

namespace {

double detail_in(const json& score, const char* key) { return number_in(score.value(key, json())); }

void read_interval(const json& score, const char* key, double& low, double& high) {
  const json interval = score.value(key, json::array({nullptr, nullptr}));
  low = number_in(interval.at(0));
  high = number_in(interval.at(1));
}

ReportScore read_score(const json& score) {
  ReportScore result;
  result.name = score.at("name").get<std::string>();
  result.metric = score.at("metric").get<std::string>();
  result.value = number_in(score.at("value"));
  result.floor = number_in(score.at("floor"));
  result.ratio = number_in(score.at("ratio"));
  read_interval(score, "interval", result.low, result.high);
  read_interval(score, "ratio_interval", result.ratio_low, result.ratio_high);
  result.points = detail_in(score, "points");
  result.never_generated = detail_in(score, "never_generated");
  result.never_truth = detail_in(score, "never_truth");
  return result;
}

struct MetricWords {
  const char *metric, *unit;
};

constexpr std::array<MetricWords, 8> kMetrics = {{
    {"sliced W2", "units of x"},
    {"W2", "units of x"},
    {"exact W2", "units of x"},
    {"W2 of crossing times", "units of T; never counts as T"},
    {kFairCrps, "units of x"},
    {kSpreadSkill, "1 is right, near 0 collapsed"},
    {"unevenness of ranks", "relative error of a bar"},
    {"log10 spectrum", "decades of energy"},
}};

}  // namespace

double number_in(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<ReportScore> read_scores(const json& list) {
  std::vector<ReportScore> scores;
  for (const json& score : list) scores.push_back(read_score(score));
  return scores;
}

const ReportScore* find_score(const std::vector<ReportScore>& scores, const std::string& metric,
                              const std::string& name) {
  const auto found = std::find_if(scores.begin(), scores.end(), [&](const ReportScore& score) {
    return score.metric == metric && score.name == name;
  });
  return found == scores.end() ? nullptr : &*found;
}

std::string name_in_words(const ReportScore& score) {
  const std::string words =
      score.metric + " of " + (score.name == "state" ? "the state" : score.name);
  if (score.metric == "W2" && score.name == "mean |x|") return words + " (WIM)";
  return score.metric == "W2 of crossing times" ? words + " (WCT)" : words;
}

std::string unit_in_words(const ReportScore& score) {
  for (const MetricWords& words : kMetrics) {
    if (score.metric == words.metric) return words.unit;
  }
  return "";
}

std::string short_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : "n/a";
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.3g} %", 100 * share) : "n/a";
}

}  // namespace slift
