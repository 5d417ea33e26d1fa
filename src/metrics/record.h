// Records: the few dozen numbers of a state that evaluation needs.
//
// A member's record is a hundredth of its states or less, and everything slift evaluates is a
// function of records: an ensemble of 10^5 members can be recorded while it is rolled out
// (`slift rollout --no-states`) and evaluated later, with intervals, though no state was stored.
// On disk records are trajectories of vectors whose components are the columns below.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/state_map.h"
#include "data/trajectories.h"
#include "metrics/quantity.h"

namespace slift {

// The columns of a record, in this order:
//   quantities  the value of each
//   cells       the state's value at each: all components of a vector; of a field 4 x 4 cells,
//               evenly spread, of each channel
//   means, deviations   of each channel, over its cells; fields only
//   amplitudes  roots of the radial spectrum of each channel (radial_spectrum.h); fields of 2 x 2
//               cells or more only
// Roots, as the squares of large or small numbers would not fit float32.
struct RecordPlan {
  std::vector<std::int64_t> state_shape;
  std::vector<std::string> fields;  // names of components or channels
  std::vector<Quantity> quantities;
  std::vector<std::int64_t> cells;  // indices into a state
  std::int64_t wave_numbers = 0;    // of a channel's spectrum

  bool of_vectors() const { return state_shape.size() == 1; }
  std::int64_t channels() const { return state_shape.front(); }
  std::int64_t first_cell() const { return std::ssize(quantities); }
  std::int64_t first_mean() const { return first_cell() + std::ssize(cells); }
  std::int64_t first_deviation() const { return first_mean() + (of_vectors() ? 0 : channels()); }
  std::int64_t first_amplitude() const {
    return first_deviation() + (of_vectors() ? 0 : channels());
  }
  std::int64_t width() const { return first_amplitude() + channels() * wave_numbers; }
  std::string cell_name(std::int64_t index) const;  // "x1", or "u(8, 24)" of a field
  std::vector<std::string> column_names() const;

  nlohmann::json to_json() const;
  static RecordPlan from_json(const nlohmann::json& object, const std::string& source);
  friend bool operator==(const RecordPlan& a, const RecordPlan& b);
};

// What is recorded of such states: the standard quantities and `extra` ones. Throws UserError if a
// quantity does not fit the states.
RecordPlan plan_record(const TrajectoryInfo& info, const std::vector<Quantity>& extra);

// The plan a file's records were made by. Throws UserError if the file holds states.
RecordPlan plan_of_records(const TrajectoryReader& records);

// The map from states to records; its `record` is the plan's JSON.
StateMap record_map(const RecordPlan& plan, const TrajectoryInfo& info);

}  // namespace slift
