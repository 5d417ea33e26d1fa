// Does a model repeat its training data? Nearest neighbours among the training trajectories.
//
// The distance of two trajectories is the root mean square of their difference over all components
// and steps 1, 2, ... that all files have (step 0 is given, not generated), as stored: channels
// of larger numbers weigh more. For member i of an ensemble, training trajectory j(i) is nearest,
// at d_i; from j(i) to the training trajectory nearest to it, another one, it is d'_i. Then
//   value = mean d_i / mean d'_i, copied = share of members with d_i <= d'_i / 2.
// New trajectories have a value of about 1 and copy little, how much depends on the system and the
// number of training trajectories. The floor is therefore what fresh truth gives: trajectories of
// the system itself that were not trained on.
//
// Means, not medians: a model that copies a third of the time leaves the median where it was. And a
// ratio of means, not a mean of ratios: two close training trajectories would outweigh the rest.
//
// Trajectories that start where a training trajectory does are nearer to it than others: roll out
// from other initial states.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "metrics/bootstrap.h"

namespace slift {

struct NearestOptions {
  std::string device = "cpu";               // or "cuda"
  std::int64_t max_members = 1024;          // the first ones, of the ensemble and of fresh truth
  std::int64_t training_members = 0;        // the first ones, those trained on; 0: all
  std::int64_t memory_bytes = 256ll << 20;  // for states and distances, see DistanceBlocks
  std::int64_t bootstrap = 200;             // replicates, at least 2
};

// One set of trajectories among the training trajectories; entry i belongs to member i. Intervals,
// here and below, are 95 %: estimate +- 1.96 bootstrap standard errors over members.
struct Neighbours {
  std::vector<std::int64_t> nearest;       // j(i)
  std::vector<double> distance;            // d_i
  std::vector<double> neighbour_distance;  // d'_i
  double value = 0, copied = 0;
  Interval value_interval;
};

// What fresh truth gives, and the generated members in comparison.
struct NearestFloor {
  std::string fresh_truth;  // file
  Neighbours members;
  double ratio = 0;          // value of the generated over that of fresh truth
  double excess_copied = 0;  // copied of the generated less that of fresh truth
  Interval ratio_interval, excess_interval;

  // The ratio is below 1/2 or the excess above 0.05, each with its whole interval. A collapsed
  // model, which returns the mean of all trajectories, is no memoriser: its ratio is 0.7 (1/sqrt(2)
  // for noise in many dimensions) or more.
  bool memorising() const { return ratio_interval.high < 0.5 || excess_interval.low > 0.05; }
};

struct NearestNeighbours {
  std::string generated, training;  // files
  std::int64_t training_members = 0;
  std::int64_t steps = 0;  // compared, without step 0
  Neighbours members;
  std::optional<NearestFloor> floor;  // if there was fresh truth

  // Keys, those marked * only with fresh truth:
  //   training, training_members   file, and how many of its trajectories were compared with
  //   fresh_truth *                file
  //   steps                        compared, without step 0
  //   value, floor *, ratio *      mean d / mean d', the same of fresh truth, value / floor
  //   interval, floor_interval *, ratio_interval *   95 %
  //   copied, copied_floor *       share of members with d <= d' / 2, the same of fresh truth
  //   excess_interval *            95 %, of copied - copied_floor
  //   memorising *                 ratio_interval below 0.5, or excess_interval above 0.05
  //   members, fresh_members *     per member: nearest (index in the training file), distance (d),
  //                                neighbour_distance (d')
  nlohmann::json to_json() const;
};

// Throws UserError if the files do not fit together, a value is not finite, there are fewer than 2
// training trajectories or they are copies of each other, or the fresh truth is the training data.
// Throws Interrupted soon after a signal. `fresh_truth` may be null. The result does not depend on
// memory_bytes or the number of threads.
NearestNeighbours nearest_neighbours(const TrajectoryReader& generated,
                                     const TrajectoryReader& training,
                                     const TrajectoryReader* fresh_truth,
                                     const NearestOptions& options);

// How the distances of `rows` trajectories to `columns` others are cut to fit in memory: `states`
// states of rows x columns trajectories at a time. `states` depends on the trajectories alone
// (about 64 KiB of each, for reading in large pieces), so that sums are rounded alike for every
// `bytes`.
struct DistanceBlocks {
  std::int64_t states = 1, rows = 1, columns = 1;  // the latter two at least 1

  // float32 states of both sides, float64 distances; on a GPU as much again there.
  std::int64_t bytes(std::int64_t state_size) const {
    return 4 * states * state_size * (rows + columns) + 8 * rows * columns;
  }
};
DistanceBlocks cut_distances(std::int64_t rows, std::int64_t columns, std::int64_t states,
                             std::int64_t state_size, std::int64_t bytes);

}  // namespace slift
