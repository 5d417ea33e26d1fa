// How every score is made: a number for two sets of members, its floor, its interval.
//
// The truth is cut in two halves. The score compares the ensemble with the first half; the floor is
// the same number for the second half in the ensemble's place: what a perfect emulator would score.
// One cut gives a noisy floor (15 % from seed to seed for Duffing at 4096 members), so both are
// means over several random cuts. Intervals come from resampling with replacement: members, or
// groups of members where there are several.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/bootstrap.h"
#include "metrics/ensemble.h"

namespace slift {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Score {
  std::string name;             // what is compared: "state", "mean |x|"
  std::string metric;           // how: "sliced W2", "fair CRPS"
  double value = 0, floor = 0;  // NaN where they cannot be computed
  // 95 %: the estimate +- 1.96 bootstrap standard errors over members or groups.
  std::optional<Interval> interval, floor_interval, ratio_interval;
  // Per step, if the score is a mean over time; time is normalised to [0, 1].
  std::vector<double> time, over_time, floor_over_time;
  nlohmann::json details = nlohmann::json::object();  // what this metric has beside these

  double ratio() const { return value / floor; }
  std::string title() const;  // "W2 of mean |x| (WIM)"
  nlohmann::json to_json() const;
};

// How often each member of a set is drawn.
using Draws = std::vector<std::int32_t>;

// Members that are compared with each other: those that share their start, or all.
struct Group {
  std::int64_t first_generated = 0, generated = 0, first_truth = 0, truth = 0;
};

// Two sets of members: `ensemble` (generated, or true for the floor) against `reference` (true).
struct Pairing {
  bool generated = true;
  bool resampled = false;  // a bootstrap replicate, else a cut
  Draws ensemble, reference;
  bool same_reference = false;  // as the pairing before
  Draws groups = {};            // how often each group is drawn; empty: once

  std::int32_t copies_of(std::size_t group) const { return groups.empty() ? 1 : groups[group]; }
};

// All pairings of two ensembles; the same positions are drawn in each group.
class Comparison {
 public:
  // `groups` have equal sizes, not empty. Half of each group's truth is the reference, at least
  // one member; with a single one there is no floor.
  Comparison(const Ensemble& generated, const Ensemble& truth, std::vector<Group> groups,
             std::int64_t cuts, std::int64_t replicates);

  const Ensemble& generated() const { return generated_; }
  const Ensemble& truth() const { return truth_; }
  const std::vector<Group>& groups() const { return groups_; }
  // First those of cuts, then the replicates.
  const std::vector<Pairing>& pairings() const { return pairings_; }
  std::span<const Pairing> cuts() const { return std::span(pairings_).first(cut_pairings_); }
  const RecordPlan& plan() const { return truth_.plan; }
  std::int64_t steps() const { return std::min(generated_.steps, truth_.steps); }
  double time(std::int64_t step) const;

 private:
  const Ensemble& generated_;
  const Ensemble& truth_;
  std::vector<Group> groups_;
  std::vector<Pairing> pairings_;
  std::size_t cut_pairings_ = 0;
};

// One number for each pairing; NaN where a score has none.
using PairingValues = std::vector<double>;

// A score from its values at every step after the first, which is given, not generated. `at_step`
// is called by several threads at once. The score is their mean over time, or what `of_all` says
// when all steps are done. Throws Interrupted after a signal.
Score score_over_time(const Comparison& comparison,
                      const std::function<PairingValues(std::int64_t step)>& at_step,
                      const std::function<PairingValues()>& of_all = {});
// A score without a time axis.
Score score_once(const Comparison& comparison, const PairingValues& values);

// Values of the members of one group, sorted once, from which pairings draw.
class SortedValues {
 public:
  SortedValues(std::span<const float> generated, std::span<const float> truth);

  // Calls visit(p, ensemble, reference), both ascending, for every pairing p that draws `group`,
  // whose values these are.
  template <typename Visit>
  void for_each(std::span<const Pairing> pairings, std::size_t group, const Visit& visit) const {
    std::vector<float> ensemble, reference;
    for (std::size_t p = 0; p < pairings.size(); ++p) {
      if (pairings[p].copies_of(group) == 0) continue;
      if (!pairings[p].same_reference) truth_.draw(pairings[p].reference, reference);
      (pairings[p].generated ? generated_ : truth_).draw(pairings[p].ensemble, ensemble);
      visit(p, ensemble, reference);
    }
  }

 private:
  struct Sorted {
    std::vector<std::int32_t> order;  // where each value came from
    std::vector<float> values;
    explicit Sorted(std::span<const float> unsorted);
    void draw(const Draws& draws, std::vector<float>& drawn) const;
  };
  Sorted generated_, truth_;
};

// The values of one column of group number `group` at one step, times `scale`.
SortedValues sorted_column(const Comparison& comparison, std::size_t group, std::int64_t step,
                           std::int64_t column, double scale = 1);

}  // namespace slift
