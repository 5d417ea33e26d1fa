// Numbers of an evaluation in plain words.
#pragma once

#include <string>

#include "report/run_data.h"

namespace slift {

// In this order from good to bad.
enum class Level { kGood, kClose, kVisible, kBad, kUnknown };

// Up to these a score is good, close, visible; above is bad. They are conventions.
struct Limits {
  double good, close, visible;
};
// Of distances: times the floor.
inline constexpr Limits kRatioLimits = {1.5, 3.5, 10};
// Of the fair CRPS: times the floor too, but that is the spread of the truth, not noise. A normal
// ensemble that is off by d deviations has 1 + d^2 / 2, one that gives the mean only 1.41.
inline constexpr Limits kCrpsLimits = {1.01, 1.05, 1.2};
// Of the spread-skill ratio: distance from 1.
inline constexpr Limits kSpreadSkillLimits = {0.1, 0.25, 0.5};
// Below this spread-skill ratio, or share of the truth's standard deviation, an ensemble counts as
// collapsed, above the other as too wide.
inline constexpr double kCollapsedSpread = 0.5, kWideSpread = 1.5;

struct Verdict {
  Level level = Level::kUnknown;  // of distance and spread together
  bool collapsed = false;
  std::string headline;  // "close to the truth"
  std::string distance;  // a sentence with the numbers
  std::string spread;    // a sentence with the numbers; empty if nothing varies
  std::string worst;     // names the worst score; empty if none is worse than the first
  std::string one_step;  // what the gauge said at the end of training; empty without a log
  bool memorised = false;
  std::string nearest;  // a sentence with the numbers; empty if it was not checked
};

// By the first score and by the spread: the spread-skill ratio of the state, overall and from
// common starts, or the standard deviation where neither is known.
Verdict verdict_of(const RunData& run);

// How good one score is; unknown where it has no number.
Level judge(const ReportScore& score);

// "close to the truth".
std::string in_words(Level level);

// The name of a level as a CSS class.
const char* css_class(Level level);

}  // namespace slift
