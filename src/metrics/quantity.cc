#include "metrics/quantity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

using nlohmann::json;

namespace {

// The cells of one range of rows or columns, which is checked.
std::pair<std::int64_t, std::int64_t> range_of(const Quantity& quantity, const char* key,
                                               const std::vector<std::int64_t>& range,
                                               std::int64_t size) {
  if (range.empty()) return {0, size};
  require(range.size() == 2 && range[0] < range[1] && range[1] <= size,
          "quantity {}: {} must be [first, end] within [0, {}], got [{}]", quantity.name, key, size,
          fmt::join(range, ", "));
  return {range[0], range[1]};
}

std::vector<std::int64_t> channels_of(const Quantity& quantity, const TrajectoryInfo& info) {
  std::vector<std::int64_t> channels;
  if (quantity.field.empty()) {
    for (std::int64_t c = 0; c < info.channels(); ++c) channels.push_back(c);
    return channels;
  }
  const std::vector<std::string> names = info.field_names();
  const auto found = std::find(names.begin(), names.end(), quantity.field);
  require(found != names.end(), "quantity {}: there is no field {}; the nearest is {}",
          quantity.name, quantity.field, nearest_name(quantity.field, names));
  return {found - names.begin()};
}

}  // namespace

ConfigSchema Quantity::schema() {
  ConfigSchema s;
  s.field("name", &name, Effect::kResults, "what tables and charts call it");
  s.field("reduce", &reduce, Effect::kResults, "how the region becomes one number",
          one_of({"mean", "mean_abs", "max", "min"}));
  s.field("field", &field, Effect::kResults, "component or channel; empty: all");
  s.field("region", &region, Effect::kResults, "cells of a field that count",
          one_of({"all", "border"}));
  s.field("rows", &rows, Effect::kResults, "first and end row of the region; empty: all",
          at_least(0));
  s.field("columns", &columns, Effect::kResults, "first and end column; empty: all", at_least(0));
  s.field("crossing", &crossing, Effect::kResults, "which way it crosses the threshold",
          one_of({"none", "above", "below"}));
  s.field("threshold", &threshold, Effect::kResults, "of the crossing");
  return s;
}

json to_json(const std::vector<Quantity>& quantities) {
  json list = json::array();
  for (Quantity quantity : quantities) list.push_back(quantity.schema().to_json());
  return list;
}

std::vector<Quantity> quantities_from_json(const json& list, const std::string& source) {
  std::vector<Quantity> quantities;
  std::set<std::string> names;
  for (const json& entry : list) {
    Quantity quantity;
    const std::string where = fmt::format("{}: quantity {}", source, quantities.size() + 1);
    require(entry.is_object(), "{}: must be a [[quantity]] table", where);
    quantity.schema().apply_json(entry, where);
    require(!quantity.name.empty(), "{}: name is not set", where);
    require(names.insert(quantity.name).second, "{}: name {} is taken", where, quantity.name);
    quantities.push_back(std::move(quantity));
  }
  return quantities;
}

std::vector<Quantity> read_quantities(const std::filesystem::path& toml_file) {
  const std::string source = toml_file.string();
  const json document = parse_toml(read_file(toml_file), source);
  for (const auto& [key, value] : document.items()) {
    require(key == "quantity" && value.is_array(),
            "{}: unknown key {}; only [[quantity]] tables are expected", source, key);
  }
  require(document.contains("quantity"), "{}: has no [[quantity]] table", source);
  return quantities_from_json(document.at("quantity"), source);
}

std::vector<Quantity> standard_quantities(const TrajectoryInfo& info) {
  std::vector<Quantity> quantities;
  if (info.is_vector()) return quantities;
  Quantity magnitude;
  magnitude.name = "mean |x|";
  magnitude.reduce = "mean_abs";
  quantities.push_back(magnitude);
  Quantity watched;
  watched.reduce = "max";
  watched.crossing = "above";
  watched.threshold = 0.05;
  if (info.system == "wave") {
    watched.name = "largest on the border";
    watched.region = "border";
    quantities.push_back(watched);
  }
  if (info.system == "flow") {
    constexpr std::int64_t kCorner = 8;
    const std::int64_t height = info.state_shape[1], width = info.state_shape[2];
    watched.name = "largest at the producer";
    watched.rows = {std::max<std::int64_t>(0, height - kCorner), height};
    watched.columns = {std::max<std::int64_t>(0, width - kCorner), width};
    quantities.push_back(watched);
  }
  return quantities;
}

StateFunction::StateFunction(const Quantity& quantity, const TrajectoryInfo& info)
    : reduce_(quantity.reduce == "mean_abs" ? Reduce::kMeanAbs
              : quantity.reduce == "max"    ? Reduce::kMax
              : quantity.reduce == "min"    ? Reduce::kMin
                                            : Reduce::kMean) {
  const std::vector<std::int64_t> channels = channels_of(quantity, info);
  if (info.is_vector()) {
    require(quantity.rows.empty() && quantity.columns.empty() && quantity.region == "all",
            "quantity {}: rows, columns and region are for fields, these states are vectors",
            quantity.name);
    cells_ = channels;
    return;
  }
  const std::int64_t height = info.state_shape[1], width = info.state_shape[2];
  const auto [top, bottom] = range_of(quantity, "rows", quantity.rows, height);
  const auto [left, right] = range_of(quantity, "columns", quantity.columns, width);
  for (const std::int64_t c : channels) {
    for (std::int64_t y = top; y < bottom; ++y) {
      for (std::int64_t x = left; x < right; ++x) {
        const bool border = y == 0 || x == 0 || y + 1 == height || x + 1 == width;
        if (border || quantity.region == "all") cells_.push_back((c * height + y) * width + x);
      }
    }
  }
  require(!cells_.empty(), "quantity {}: its rows and columns have no cell on the border",
          quantity.name);
}

float StateFunction::operator()(std::span<const float> state) const {
  const auto at = [&](std::int64_t cell) { return state[static_cast<std::size_t>(cell)]; };
  if (reduce_ == Reduce::kMax || reduce_ == Reduce::kMin) {
    float extreme = at(cells_.front());
    for (const std::int64_t cell : cells_) {
      extreme = reduce_ == Reduce::kMax ? std::max(extreme, at(cell)) : std::min(extreme, at(cell));
    }
    return extreme;
  }
  double sum = 0;
  for (const std::int64_t cell : cells_) {
    const double v = at(cell);
    sum += reduce_ == Reduce::kMeanAbs ? std::abs(v) : v;
  }
  return static_cast<float>(sum / static_cast<double>(cells_.size()));
}

std::optional<double> first_crossing(const Quantity& quantity, std::span<const float> values) {
  for (std::size_t t = 0; t < values.size(); ++t) {
    const double v = values[t];
    if (quantity.crossing == "above" ? v > quantity.threshold : v < quantity.threshold) {
      return static_cast<double>(t) /
             static_cast<double>(std::max<std::size_t>(values.size(), 2) - 1);
    }
  }
  return std::nullopt;
}

}  // namespace slift
