// Quantities of interest: one number per state, asked for without writing C++.
//
//   [[quantity]]
//   name = "breakthrough"
//   reduce = "max"          # over the region: mean, mean_abs, max or min
//   field = "s"             # a component or channel; all of them if left out
//   rows = [88, 96]         # first and end row and column of the region; all if left out
//   columns = [88, 96]
//   crossing = "above"      # also compare when it first crosses the threshold
//   threshold = 0.05
//
// Time is normalised to [0, 1]: 0 is the first stored state, 1 the last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config.h"
#include "data/trajectories.h"

namespace slift {

struct Quantity {
  std::string name;
  std::string reduce = "mean";
  std::string field;
  std::string region = "all";  // or "border", the outermost rows and columns
  std::vector<std::int64_t> rows, columns;
  std::string crossing = "none";  // or "above", "below"
  double threshold = 0;

  ConfigSchema schema();  // points into this object
  bool has_crossing() const { return crossing != "none"; }
};

// Reads a TOML file of [[quantity]] tables. Throws UserError naming file, quantity and key.
std::vector<Quantity> read_quantities(const std::filesystem::path& toml_file);

nlohmann::json to_json(const std::vector<Quantity>& quantities);
std::vector<Quantity> quantities_from_json(const nlohmann::json& list, const std::string& source);

// What is asked of every field: mean |x|; and of the paper's systems what WCT watches: of `wave`
// the largest value on the border, of `flow` that in the 8 x 8 corner at the producer, first above
// 0.05. Vectors are compared by their components and have none of these.
std::vector<Quantity> standard_quantities(const TrajectoryInfo& info);

// A quantity bound to one kind of state; may be used by many threads at once.
class StateFunction {
 public:
  // Throws UserError if the quantity's field or region is not in these states.
  StateFunction(const Quantity& quantity, const TrajectoryInfo& info);

  float operator()(std::span<const float> state) const;

 private:
  enum class Reduce { kMean, kMeanAbs, kMax, kMin };

  Reduce reduce_;
  std::vector<std::int64_t> cells_;  // indices into a state
};

// The step at which `values` [steps] are first beyond the quantity's threshold, as time in [0, 1];
// nothing if they never are.
std::optional<double> first_crossing(const Quantity& quantity, std::span<const float> values);

}  // namespace slift
