#include "metrics/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "core/testing.h"

namespace slift {
namespace {

TrajectoryInfo states(std::vector<std::int64_t> shape, std::vector<std::string> fields = {}) {
  TrajectoryInfo info;
  info.members = 2, info.steps = 1;
  info.state_shape = std::move(shape), info.fields = std::move(fields);
  return info;
}

std::vector<float> record_of(const StateMap& map, const std::vector<float>& state) {
  std::vector<float> record(static_cast<std::size_t>(map.size()));
  map.apply(state, record);
  return record;
}

TEST(Record, OfAVectorIsItsQuantitiesAndComponents) {
  Quantity sum;
  sum.name = "largest", sum.reduce = "max";
  const TrajectoryInfo info = states({3}, {"a", "b", "c"});
  const RecordPlan plan = plan_record(info, {sum});
  EXPECT_EQ(plan.width(), 4);
  EXPECT_EQ(plan.column_names(), (std::vector<std::string>{"largest", "a", "b", "c"}));
  EXPECT_EQ(record_of(record_map(plan, info), {1, 5, 2}), (std::vector<float>{5, 1, 5, 2}));
}

TEST(Record, OfAFieldHasItsParts) {
  const TrajectoryInfo info = states({2, 8, 6}, {"u", "v"});
  const RecordPlan plan = plan_record(info, {});
  // mean |x|, 2 x 16 cells, 2 means, 2 deviations, 2 x 4 wave numbers.
  EXPECT_EQ(plan.wave_numbers, 4);
  EXPECT_EQ(plan.width(), 1 + 32 + 2 + 2 + 8);
  EXPECT_EQ(std::ssize(plan.column_names()), plan.width());
  EXPECT_EQ(plan.cell_name(0), "u(1, 0)");
  EXPECT_EQ(plan.cell_name(31), "v(7, 5)");
  EXPECT_EQ(plan.column_names()[33], "mean u");
  EXPECT_EQ(plan.column_names()[36], "deviation v");
  EXPECT_EQ(plan.column_names()[41], "amplitude v 0");

  std::vector<float> state(96);
  std::iota(state.begin(), state.begin() + 48, 0.0f);
  for (std::size_t i = 0; i < 48; ++i) {  // two waves along the rows, around 3
    state[48 + i] =
        3 + static_cast<float>(std::cos(2 * std::numbers::pi * 2 * static_cast<double>(i % 6) / 6));
  }
  const std::vector<float> record = record_of(record_map(plan, info), state);
  EXPECT_FLOAT_EQ(record[0], (47 * 24 + 3 * 48) / 96.0f);
  EXPECT_FLOAT_EQ(record[1], 1 * 6 + 0);
  EXPECT_FLOAT_EQ(record[2], 1 * 6 + 2);
  EXPECT_FLOAT_EQ(record[5], 3 * 6 + 0);
  EXPECT_FLOAT_EQ(record[32], state[95]);
  EXPECT_FLOAT_EQ(record[33], 23.5f);
  EXPECT_FLOAT_EQ(record[34], 3);
  EXPECT_FLOAT_EQ(record[35], std::sqrt((48 * 48 - 1) / 12.0f));
  EXPECT_FLOAT_EQ(record[36], std::sqrt(0.5f));
  EXPECT_NEAR(record[41], 3, 1e-6);               // E(0) of v is its mean squared
  EXPECT_NEAR(record[43], std::sqrt(0.5), 1e-6);  // E(2), all of its variance
  EXPECT_NEAR(record[42], 0, 1e-6);
}

TEST(Record, NamesOfQuantitiesAreTheirOwn) {
  Quantity again;
  again.name = "mean |x|", again.reduce = "max";
  EXPECT_NE(error_of([&] {
              plan_record(states({1, 4, 4}), {again});
            }).find("mean |x|"),
            std::string::npos);
  EXPECT_EQ(plan_record(states({4}), {again}).quantities.size(), 1u);  // vectors have no such
}

TEST(Record, FieldsOfOneRowHaveNoSpectrum) {
  const RecordPlan plan = plan_record(states({1, 1, 5}), {});
  EXPECT_EQ(plan.wave_numbers, 0);
  EXPECT_EQ(plan.cells, (std::vector<std::int64_t>{0, 1, 3, 4}));
  EXPECT_EQ(plan.width(), 1 + 4 + 2);
}

TEST(Record, PlansOutliveTheFile) {
  TestFolder folder;
  const TrajectoryInfo info = states({1, 4, 4}, {"u"});
  const RecordPlan plan = plan_record(info, {});
  EXPECT_TRUE(RecordPlan::from_json(plan.to_json(), "x") == plan);

  const StateMap map = record_map(plan, info);
  const auto file = [&](const std::string& record, std::int64_t columns) {
    TrajectoryInfo recorded = info;
    recorded.state_shape = {columns}, recorded.fields = {}, recorded.record = record;
    TrajectoryWriter writer(folder / "r.h5", recorded);
    writer.commit();
    return TrajectoryReader(folder / "r.h5");
  };
  EXPECT_TRUE(plan_of_records(file(map.record, plan.width())) == plan);
  const auto error = [&](const std::string& record, std::int64_t columns) {
    return error_of([&] { plan_of_records(file(record, columns)); });
  };
  EXPECT_NE(error("", 3).find("holds states"), std::string::npos);
  EXPECT_NE(error("{}", 3).find("broken description"), std::string::npos);
  EXPECT_NE(error("[1", 3).find("broken description"), std::string::npos);
  EXPECT_NE(error(map.record, 3).find("have 3 columns"), std::string::npos);
  nlohmann::json later = plan.to_json();
  later["version"] = 3;
  EXPECT_NE(error(later.dump(), plan.width()).find("record version must be 2, got 3"),
            std::string::npos);
}

}  // namespace
}  // namespace slift
