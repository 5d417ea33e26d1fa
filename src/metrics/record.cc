#include "metrics/record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "metrics/radial_spectrum.h"

namespace slift {

using nlohmann::json;

namespace {

constexpr int kRecordVersion = 2;
constexpr std::int64_t kCellsPerSide = 4;  // of a field, in each channel

// The middles of `parts` equal parts of 0 .. size-1; fewer if there are fewer.
std::vector<std::int64_t> middles(std::int64_t size, std::int64_t parts) {
  parts = std::min(parts, size);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < parts; ++i) places.push_back((2 * i + 1) * size / (2 * parts));
  return places;
}

std::vector<std::int64_t> recorded_cells(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> cells;
  if (shape.size() == 1) {
    for (std::int64_t c = 0; c < shape[0]; ++c) cells.push_back(c);
    return cells;
  }
  for (std::int64_t c = 0; c < shape[0]; ++c) {
    for (const std::int64_t y : middles(shape[1], kCellsPerSide)) {
      for (const std::int64_t x : middles(shape[2], kCellsPerSide)) {
        cells.push_back((c * shape[1] + y) * shape[2] + x);
      }
    }
  }
  return cells;
}

bool has_spectrum(const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && shape[1] > 1 && shape[2] > 1;
}

// Everything a record is computed with; shared by all copies of its map.
struct Recorder {
  RecordPlan plan;
  std::vector<StateFunction> quantities;
  std::unique_ptr<RadialSpectrum> spectrum;  // of fields

  void operator()(std::span<const float> state, std::span<float> record) const {
    std::size_t at = 0;
    for (const StateFunction& quantity : quantities) record[at++] = quantity(state);
    for (const std::int64_t cell : plan.cells) record[at++] = state[static_cast<std::size_t>(cell)];
    if (plan.of_vectors()) return;
    const auto channels = static_cast<std::size_t>(plan.channels());
    const std::size_t area = state.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (const float v : state.subspan(c * area, area)) sum += v;
      const double mean = sum / static_cast<double>(area);
      for (const float v : state.subspan(c * area, area)) squares += (v - mean) * (v - mean);
      record[at + c] = static_cast<float>(mean);
      record[at + channels + c] =
          static_cast<float>(std::sqrt(squares / static_cast<double>(area)));
    }
    at += 2 * channels;
    for (std::size_t c = 0; spectrum && c < channels; ++c) {
      for (const double e : spectrum->energy(state.subspan(c * area, area))) {
        record[at++] = static_cast<float>(std::sqrt(e));
      }
    }
  }
};

}  // namespace

std::string RecordPlan::cell_name(std::int64_t which) const {
  const std::int64_t cell = cells[static_cast<std::size_t>(which)];
  if (of_vectors()) return fields[static_cast<std::size_t>(cell)];
  const std::int64_t area = state_shape[1] * state_shape[2], inside = cell % area;
  return fmt::format("{}({}, {})", fields[static_cast<std::size_t>(cell / area)],
                     inside / state_shape[2], inside % state_shape[2]);
}

std::vector<std::string> RecordPlan::column_names() const {
  std::vector<std::string> names;
  for (const Quantity& quantity : quantities) names.push_back(quantity.name);
  for (std::int64_t i = 0; i < std::ssize(cells); ++i) names.push_back(cell_name(i));
  if (of_vectors()) return names;
  for (const std::string& field : fields) names.push_back("mean " + field);
  for (const std::string& field : fields) names.push_back("deviation " + field);
  for (const std::string& field : fields) {
    for (std::int64_t k = 0; k < wave_numbers; ++k)
      names.push_back(fmt::format("amplitude {} {}", field, k));
  }
  return names;
}

json RecordPlan::to_json() const {
  return {{"version", kRecordVersion},
          {"state_shape", state_shape},
          {"fields", fields},
          {"quantities", slift::to_json(quantities)},
          {"cells", cells},
          {"wave_numbers", wave_numbers}};
}

RecordPlan RecordPlan::from_json(const json& object, const std::string& source) {
  RecordPlan plan;
  try {
    require(object.at("version") == kRecordVersion, "{}: record version must be {}, got {}", source,
            kRecordVersion, object.at("version").dump());
    plan.state_shape = object.at("state_shape").get<std::vector<std::int64_t>>();
    plan.fields = object.at("fields").get<std::vector<std::string>>();
    plan.quantities = quantities_from_json(object.at("quantities"), source);
    plan.cells = object.at("cells").get<std::vector<std::int64_t>>();
    plan.wave_numbers = object.at("wave_numbers").get<std::int64_t>();
  } catch (const json::exception& error) {
    fail("{}: broken description of its records: {}", source, error.what());
  }
  require(!plan.state_shape.empty() && std::ssize(plan.fields) == plan.channels(),
          "{}: broken description of its records: fields do not fit the states", source);
  return plan;
}

bool operator==(const RecordPlan& a, const RecordPlan& b) { return a.to_json() == b.to_json(); }

RecordPlan plan_record(const TrajectoryInfo& info, const std::vector<Quantity>& extra) {
  RecordPlan plan;
  plan.state_shape = info.state_shape;
  plan.fields = info.field_names();
  plan.quantities = standard_quantities(info);
  for (const Quantity& quantity : extra) {
    const bool taken = std::any_of(plan.quantities.begin(), plan.quantities.end(),
                                   [&](const Quantity& q) { return q.name == quantity.name; });
    require(!taken, "quantity {}: these states have a quantity of that name already",
            quantity.name);
    plan.quantities.push_back(quantity);
  }
  plan.cells = recorded_cells(info.state_shape);
  if (has_spectrum(info.state_shape)) {
    plan.wave_numbers = RadialSpectrum(info.state_shape[1], info.state_shape[2]).bins();
  }
  for (const Quantity& quantity : plan.quantities) StateFunction(quantity, info);  // checks it
  return plan;
}

RecordPlan plan_of_records(const TrajectoryReader& records) {
  const TrajectoryInfo& info = records.info();
  require(!info.record.empty(), "{}: holds states, not records", records.path());
  const json object = json::parse(info.record, nullptr, /*allow_exceptions=*/false);
  const RecordPlan plan = RecordPlan::from_json(object, records.path());
  require(info.is_vector() && info.channels() == plan.width(),
          "{}: its records have {} columns, their description says {}", records.path(),
          info.channels(), plan.width());
  return plan;
}

StateMap record_map(const RecordPlan& plan, const TrajectoryInfo& info) {
  auto recorder = std::make_shared<Recorder>();
  recorder->plan = plan;
  for (const Quantity& quantity : plan.quantities)
    recorder->quantities.emplace_back(quantity, info);
  if (plan.wave_numbers > 0) {
    recorder->spectrum = std::make_unique<RadialSpectrum>(info.state_shape[1], info.state_shape[2]);
  }
  return {{plan.width()},
          plan.column_names(),
          plan.to_json().dump(),
          [recorder](auto state, auto record) { (*recorder)(state, record); }};
}

}  // namespace slift
