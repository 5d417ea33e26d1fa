#include "report/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace slift {

namespace {

Level within(const Limits& limits, double number) {
  if (!std::isfinite(number)) return Level::kUnknown;
  if (number <= limits.good) return Level::kGood;
  if (number <= limits.close) return Level::kClose;
  return number <= limits.visible ? Level::kVisible : Level::kBad;
}

std::string distance_sentence(const RunData& run) {
  const ReportScore& distance = run.headline();
  std::string text = fmt::format(
      "Its distance to the truth is {} times the floor, the distance between two independent sets "
      "of {} true trajectories",
      short_number(distance.ratio), run.members);
  if (std::isfinite(distance.ratio_low)) {
    text += fmt::format(" (95 % interval {} to {})", short_number(distance.ratio_low),
                        short_number(distance.ratio_high));
  }
  return text + ".";
}

// The spread-skill ratio of the state; NaN if there is none.
double spread_skill_in(const std::vector<ReportScore>& scores) {
  const ReportScore* score = find_score(scores, kSpreadSkill, "state");
  return score != nullptr ? score->value : std::numeric_limits<double>::quiet_NaN();
}

// What is known of the spread, in order of trust.
struct Spreads {
  double overall, conditional;  // spread-skill ratios
  const Spread& deviations;

  bool has_skill() const { return std::isfinite(overall) || std::isfinite(conditional); }
  double smallest() const {
    return has_skill() ? std::fmin(overall, conditional) : deviations.smallest;
  }
  double largest() const {
    return has_skill() ? std::fmax(overall, conditional) : deviations.largest;
  }
};

std::string spread_skill_words(const Spreads& spreads) {
  if (!std::isfinite(spreads.conditional)) return short_number(spreads.overall);
  std::string branches = short_number(spreads.conditional) + " among members with a common start";
  if (!std::isfinite(spreads.overall)) return branches;
  return short_number(spreads.overall) + " over all members and " + branches;
}

std::string deviation_words(const Spread& spread) {
  const std::string low = short_number(spread.smallest), high = short_number(spread.largest);
  const std::string range = low == high
                                ? low
                                : fmt::format("between {} ({}) and {} ({})", low,
                                              spread.smallest_field, high, spread.largest_field);
  return fmt::format("standard deviation is on average {} of the truth's", range);
}

std::string spread_sentence(const Spreads& spreads) {
  std::string text;
  if (spreads.has_skill()) {
    text = fmt::format("spread-skill ratio is {} (1 is right)", spread_skill_words(spreads));
  }
  if (std::isfinite(spreads.deviations.smallest)) {
    text += (text.empty() ? "" : ", its ") + deviation_words(spreads.deviations);
  }
  if (text.empty()) return "";
  if (spreads.smallest() < kCollapsedSpread) {
    return "Its " + text + ": members differ far too little.";
  }
  return (spreads.largest() > kWideSpread ? "Too wide. Its " : "Its ") + text + ".";
}

// A good distance does not excuse a bad spectrum.
std::string worst_sentence(const RunData& run) {
  Level worst = judge(run.headline());
  std::string text;
  const auto look = [&](const std::vector<ReportScore>& scores, const char* where) {
    for (const ReportScore& score : scores) {
      const Level level = judge(score);
      if (level <= worst || level == Level::kUnknown) continue;
      worst = level;
      text = fmt::format("Not all scores are as good; the worst is the {}{}: {}.",
                         name_in_words(score), where, in_words(level));
    }
  };
  look(run.scores, "");
  look(run.conditional, ", from a common start");
  return text;
}

std::string one_step_sentence(const GaugeCurve& gauge) {
  if (gauge.verdict.empty()) return "";
  return fmt::format(
      "One step ahead, on {} windows, it is {}: fresh labels spread {} of their error (1 is "
      "right).",
      gauge.is_held_out ? "held-out" : "training", gauge.verdict, short_number(gauge.pooled));
}

std::string nearest_sentence(const MemorisationCheck& nearest) {
  const auto fresh = [](double floor, const std::string& words) {
    return std::isfinite(floor) ? " (fresh truth: " + words + ")" : "";
  };
  const char* verdict = !nearest.memorising   ? "no fresh truth to compare with"
                        : *nearest.memorising ? "memorising"
                                              : "not memorising";
  return fmt::format(
      "Memorisation check: {}. Its members are {} times as far from the nearest training "
      "trajectory as that one is from its own nearest neighbour{}; {} look copied{}.",
      verdict, short_number(nearest.value), fresh(nearest.floor, short_number(nearest.floor)),
      percent(nearest.copied), fresh(nearest.copied_floor, percent(nearest.copied_floor)));
}

}  // namespace

Level judge(const ReportScore& score) {
  if (score.metric == kSpreadSkill) return within(kSpreadSkillLimits, std::abs(score.value - 1));
  return within(score.metric == kFairCrps ? kCrpsLimits : kRatioLimits, score.ratio);
}

std::string in_words(Level level) {
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

Verdict verdict_of(const RunData& run) {
  const Spreads spreads = {spread_skill_in(run.scores), spread_skill_in(run.conditional),
                           run.spread};
  Verdict v;
  v.level = judge(run.headline());
  v.headline = in_words(v.level);
  v.distance = distance_sentence(run);
  v.spread = spread_sentence(spreads);
  v.worst = worst_sentence(run);
  v.one_step = one_step_sentence(run.log.gauge);
  v.collapsed = spreads.smallest() < kCollapsedSpread;
  if (v.collapsed) {
    v.headline += v.level == Level::kBad ? ", collapsed towards the mean"
                                         : ", but collapsed towards the mean";
    v.level = Level::kBad;
  }
  if (run.nearest) {
    v.nearest = nearest_sentence(*run.nearest);
    v.memorised = run.nearest->memorising.value_or(false);
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

}  // namespace slift
