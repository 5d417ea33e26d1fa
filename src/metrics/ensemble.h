// The records of a trajectory file in memory, as evaluation uses them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "metrics/record.h"

namespace slift {

// A subscript.
inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

using Table = std::vector<std::vector<double>>;

struct Ensemble {
  RecordPlan plan;
  std::int64_t steps = 0;
  std::int64_t members = 0;                 // kept here: the first of the file
  std::int64_t all = 0;                     // in the file
  std::int64_t branches = 1;                // so many consecutive members share their start
  std::vector<std::vector<float>> at_step;  // [step][member, column]
  // Over all members of the file (and cells of fields): [step][channel].
  Table mean, std;

  // One column of members first .. first+count-1 at one step.
  std::vector<float> column(std::int64_t step, std::int64_t column, std::int64_t first,
                            std::int64_t count) const;
  // One column of one member at all steps.
  std::vector<float> series(std::int64_t member, std::int64_t column) const;
};

// Reads the file once, in pieces: states are recorded by `plan` on the way, records are taken as
// they are and must be of this plan. Throws UserError naming file, trajectory and step if a value
// is not finite.
Ensemble read_ensemble(const TrajectoryReader& reader, const RecordPlan& plan, std::int64_t steps,
                       std::int64_t keep, const std::string& label);

}  // namespace slift
