// Compares an ensemble with the truth: every score with its floor, interval and ratio (scoring.h).
// Files are read once, in pieces; memory depends on the members compared, not on the size of fields
// (of vectors it does: they are their own records).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "metrics/scoring.h"

namespace slift {

struct EvaluateOptions {
  std::int64_t max_members = 4096;   // so many generated are compared with so many true ones
  std::int64_t max_steps = 0;        // the first so many states; 0: all that both have
  std::int64_t directions = 128;     // of sliced W2
  std::int64_t cuts = 8;             // random cuts of the truth in two halves
  std::int64_t exact_points = 512;   // of exact W2, at most 2048; 0: none
  std::int64_t exact_times = 5;      // steps at which exact W2 is computed
  std::int64_t bootstrap = 50;       // replicates; 0: no intervals
  bool distances_only = false;       // no CRPS, spread-skill, ranks, spectra, quantiles
  std::vector<Quantity> quantities;  // beside the standard ones
};

// Quantiles over members of one number, at every step.
struct QuantileTable {
  std::string name;
  Table generated, truth;  // [step][level]
};

// Mean spectra of one channel at a few steps.
struct SpectrumTable {
  std::string field;
  std::vector<double> time;
  Table generated, truth;  // [time][wave number]
};

struct Evaluation {
  std::string generated, truth, system;
  std::int64_t members = 0;  // n: n generated against n true, the floor n true against n true
  std::int64_t cuts = 0, bootstrap = 0;
  std::int64_t generated_members = 0, truth_members = 0;  // of the moments: all there are
  // Of the quantiles: all, or as many as 256 MiB of records have.
  std::int64_t generated_quantile_members = 0, truth_quantile_members = 0;
  // First the headline: sliced W2 of vectors, W2 of mean |x| (WIM) of fields.
  std::vector<Score> scores;
  // Of members that share their start with true branches; empty unless both files have branches.
  std::vector<Score> conditional;
  std::int64_t branch_groups = 0;
  // Per step and channel, over all members (and cells): [step][channel].
  Table truth_mean, truth_std, generated_mean, generated_std;
  std::vector<std::string> fields;
  std::vector<double> time;
  std::vector<QuantileTable> quantiles;
  std::vector<SpectrumTable> spectra;

  const Score& headline() const { return scores.front(); }
  // The first score of this metric (and name, unless it is empty); null if there is none.
  const Score* find(const std::string& metric, const std::string& name = "") const;
  nlohmann::json to_json() const;  // schema: docs/formats.md
};

// The levels of the quantile tables.
inline constexpr double kQuantileLevels[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

// Either file may hold records instead of states. Throws UserError if the two do not fit together
// or are too small to split, Interrupted soon after a signal.
Evaluation evaluate(const TrajectoryReader& generated, const TrajectoryReader& truth,
                    const EvaluateOptions& options);

}  // namespace slift
