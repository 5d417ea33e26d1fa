// Numbers of an evaluation in plain words.
#pragma once

#include <string>

#include "report/run_data.h"

namespace slift {

enum class Level { kGood, kClose, kVisible, kBad, kUnknown };

// At most this many times the floor is good, close, visible; above is bad.
inline constexpr double kGoodRatio = 1.5, kCloseRatio = 3.5, kVisibleRatio = 10;
// Below this share of the truth's standard deviation an ensemble counts as collapsed, above the
// other as too wide.
inline constexpr double kCollapsedSpread = 0.5, kWideSpread = 1.5;

struct Verdict {
  Level level = Level::kUnknown;  // of distance and spread together
  bool collapsed = false;
  std::string headline;  // "close to the truth"
  std::string distance;  // a sentence with the numbers
  std::string spread;    // a sentence with the numbers; empty if nothing varies
};

Verdict verdict_of(const RunData& run);

// The name of a level as a CSS class.
const char* css_class(Level level);

// "1.23", "0.00012", "n/a" for NaN.
std::string short_number(double value);

}  // namespace slift
