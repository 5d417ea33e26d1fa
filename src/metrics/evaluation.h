// Compares an ensemble with the truth: distances with floors, intervals and ratios.
//
// The truth is cut in two halves of n members: the ensemble is compared with the first, and the
// floor is the same distance between the two, two independent truth sets of the same size. One cut
// gives a noisy floor (15 % from seed to seed at n = 4096 for Duffing), so both distances are means
// over several random cuts. Files are read once, in pieces; memory depends on n, not on their size.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "metrics/bootstrap.h"

namespace slift {

struct EvaluateOptions {
  std::int64_t max_members = 4096;   // n is at most this
  std::int64_t directions = 128;     // of sliced W2
  std::int64_t cuts = 8;             // random cuts of the truth in two halves
  std::int64_t exact_points = 1024;  // of exact W2, at most 2048; 0: none
  std::int64_t exact_times = 5;      // steps at which exact W2 is computed
  std::int64_t bootstrap = 50;       // replicates; 0: no intervals
};

// A distance at several times, and its mean over them.
struct DistanceOverTime {
  std::vector<double> time;  // normalised to [0, 1]
  std::vector<double> value, floor;
  double mean = 0, floor_mean = 0;

  double ratio() const { return mean / floor_mean; }
};

// W2 between first-crossing times (WCT), never crossing counted as 1, and who never crosses.
struct CrossingDistance {
  double value = 0, floor = 0;
  double never_generated = 0, never_truth = 0;  // shares of the members compared

  double ratio() const { return value / floor; }
};

struct Evaluation {
  std::string generated, truth, system;
  std::int64_t members = 0;                               // n of the distances
  std::int64_t cuts = 0;                                  // of the truth, for `sliced`
  std::int64_t generated_members = 0, truth_members = 0;  // of the moments
  std::string quantity;     // what the distance compares: "state" or "mean |x|"
  DistanceOverTime sliced;  // sliced W2 of vectors; 1-D W2 of mean |x| for fields
  DistanceOverTime exact;   // exact W2 of `exact_points` members; empty if not asked for
  std::int64_t exact_points = 0;
  std::optional<CrossingDistance> crossing;  // for systems that have a crossing rule
  // 95 % intervals (estimate +- 1.96 bootstrap standard errors over members); only if asked for.
  bool has_intervals = false;
  Interval mean_interval, floor_interval, ratio_interval;
  // Per step and channel, over all members (and cells): [step][channel].
  std::vector<std::vector<double>> truth_mean, truth_std, generated_mean, generated_std;
  std::vector<std::string> fields;
  std::vector<double> time;

  nlohmann::json to_json() const;  // schema: docs/formats.md
};

// Throws UserError if the two do not fit together or are too small to split.
Evaluation evaluate(const TrajectoryReader& generated, const TrajectoryReader& truth,
                    const EvaluateOptions& options);

}  // namespace slift
