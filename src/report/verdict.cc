#include "report/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace slift {

namespace {

Level level_of(double ratio) {
  if (!std::isfinite(ratio)) return Level::kUnknown;
  if (ratio <= kGoodRatio) return Level::kGood;
  if (ratio <= kCloseRatio) return Level::kClose;
  return ratio <= kVisibleRatio ? Level::kVisible : Level::kBad;
}

std::string headline_of(Level level) {
  switch (level) {
    case Level::kGood:
      return "indistinguishable from sampling noise at this size";
    case Level::kClose:
      return "close to the truth";
    case Level::kVisible:
      return "visible error";
    case Level::kBad:
      return "not to be trusted";
    case Level::kUnknown:
      break;
  }
  return "no verdict: the distance or its floor is not a number";
}

std::string distance_sentence(const RunData& run) {
  std::string text = fmt::format(
      "Its distance to the truth is {} times the floor, the distance between two independent sets "
      "of "
      "{} true trajectories",
      short_number(run.sliced.ratio), run.members);
  if (std::isfinite(run.sliced.ratio_low)) {
    text += fmt::format(" (95 % interval {} to {})", short_number(run.sliced.ratio_low),
                        short_number(run.sliced.ratio_high));
  }
  return text + ".";
}

std::string spread_sentence(const Spread& spread) {
  if (!std::isfinite(spread.smallest)) return "";
  const std::string low = short_number(spread.smallest), high = short_number(spread.largest);
  const std::string numbers =
      "Its standard deviation is on average " +
      (low == high ? low
                   : fmt::format("between {} ({}) and {} ({})", low, spread.smallest_field, high,
                                 spread.largest_field)) +
      " of the truth's";
  if (spread.smallest < kCollapsedSpread) {
    return numbers + ": members differ far too little.";
  }
  if (spread.largest > kWideSpread) return "Too wide. " + numbers + ".";
  return numbers + ".";
}

}  // namespace

Verdict verdict_of(const RunData& run) {
  Verdict v;
  v.level = level_of(run.sliced.ratio);
  v.headline = headline_of(v.level);
  v.distance = distance_sentence(run);
  v.spread = spread_sentence(run.spread);
  v.collapsed = run.spread.smallest < kCollapsedSpread;
  if (v.collapsed) {
    v.headline += v.level == Level::kBad ? ", collapsed towards the mean"
                                         : ", but collapsed towards the mean";
    v.level = Level::kBad;
  }
  return v;
}

const char* css_class(Level level) {
  switch (level) {
    case Level::kGood:
      return "good";
    case Level::kClose:
      return "close";
    case Level::kVisible:
      return "visible";
    case Level::kBad:
      return "bad";
    case Level::kUnknown:
      break;
  }
  return "unknown";
}

std::string short_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : "n/a";
}

}  // namespace slift
