#include "metrics/quantity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/testing.h"

namespace slift {
namespace {

TrajectoryInfo states_of(const std::string& system, std::vector<std::int64_t> shape,
                         std::vector<std::string> fields = {}) {
  TrajectoryInfo info;
  info.system = system, info.state_shape = std::move(shape), info.fields = std::move(fields);
  return info;
}

Quantity reducing(const std::string& reduce) {
  Quantity quantity;
  quantity.name = "q";
  quantity.reduce = reduce;
  return quantity;
}

TEST(Quantity, ReducesARegion) {
  const TrajectoryInfo info = states_of("x", {2, 3, 4}, {"u", "v"});
  std::vector<float> state(24);
  for (std::size_t i = 0; i < 24; ++i) state[i] = static_cast<float>(i) - 5;
  EXPECT_FLOAT_EQ(StateFunction(reducing("mean"), info)(state), 6.5f);
  EXPECT_FLOAT_EQ(StateFunction(reducing("max"), info)(state), 18);
  EXPECT_FLOAT_EQ(StateFunction(reducing("min"), info)(state), -5);
  EXPECT_FLOAT_EQ(StateFunction(reducing("mean_abs"), info)(state), (2 * 15 + 156.0f) / 24);
  Quantity part = reducing("mean");
  part.field = "v";
  EXPECT_FLOAT_EQ(StateFunction(part, info)(state), 12.5f);
  part.rows = {1, 3}, part.columns = {0, 1};  // cells 4 and 8 of v
  EXPECT_FLOAT_EQ(StateFunction(part, info)(state), (11 + 15) / 2.0f);
  part.rows.clear(), part.columns.clear(), part.field = "u", part.region = "border";
  state[5] = state[6] = 1000;  // the two cells that are not on it
  EXPECT_FLOAT_EQ(StateFunction(part, info)(state), 0.5f);
}

TEST(Quantity, OfVectorsIsOfComponents) {
  const TrajectoryInfo info = states_of("x", {3});
  const std::vector<float> state = {1, -4, 2};
  EXPECT_FLOAT_EQ(StateFunction(reducing("min"), info)(state), -4);
  Quantity third = reducing("mean");
  third.field = "x3";
  EXPECT_FLOAT_EQ(StateFunction(third, info)(state), 2);
}

TEST(Quantity, MisfitsAreNamed) {
  const TrajectoryInfo field = states_of("x", {1, 4, 4}, {"u"}), vector = states_of("x", {2});
  const auto error = [](const Quantity& quantity, const TrajectoryInfo& info) {
    return error_of([&] { StateFunction(quantity, info); });
  };
  Quantity q = reducing("max");
  q.field = "w";
  EXPECT_NE(error(q, field).find("no field w; the nearest is u"), std::string::npos);
  q.field = "", q.rows = {2, 5};
  EXPECT_NE(error(q, field).find("rows must be [first, end] within [0, 4]"), std::string::npos);
  q.rows = {2, 2};
  EXPECT_NE(error(q, field).find("rows"), std::string::npos);
  q.rows = {1, 3}, q.columns = {1, 2}, q.region = "border";
  EXPECT_NE(error(q, field).find("no cell on the border"), std::string::npos);
  EXPECT_NE(error(q, vector).find("these states are vectors"), std::string::npos);
}

TEST(Quantity, FirstStepBeyondTheThresholdCounts) {
  Quantity q = reducing("max");
  q.crossing = "above", q.threshold = 0.05;
  const auto time = [&](std::vector<float> values) { return first_crossing(q, values); };
  EXPECT_FALSE(time({0, 0.04f, 0.05f - 1e-6f, 0, 0}));
  EXPECT_DOUBLE_EQ(*time({0, 0, 0, 0, 0.06f}), 1.0);
  EXPECT_DOUBLE_EQ(*time({0, 0, 0.0501f, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(*time({2, 0, 0, 0, 0}), 0.0);
  q.crossing = "below", q.threshold = -1;
  EXPECT_DOUBLE_EQ(*time({2, -1, -1.5f, 0, 0}), 0.5);
  EXPECT_FALSE(time({-1, 0, 0}));
  q.crossing = "above", q.threshold = 0.5;
  EXPECT_FALSE(time({0, 0.5f, 0}));
}

TEST(Quantity, StandardOnesWatchWhatThePaperWatches) {
  EXPECT_TRUE(standard_quantities(states_of("duffing", {2})).empty());
  EXPECT_EQ(standard_quantities(states_of("scene", {3, 8, 8})).size(), 1u);
  const TrajectoryInfo wave = states_of("wave", {1, 3, 3}), flow = states_of("flow", {1, 20, 20});
  ASSERT_EQ(standard_quantities(wave).size(), 2u);
  const StateFunction border(standard_quantities(wave)[1], wave);
  std::vector<float> state(9, 0);
  state[4] = 1;  // the centre is not watched
  EXPECT_EQ(border(state), 0);
  state[8] = 0.5f;
  EXPECT_EQ(border(state), 0.5f);
  const StateFunction producer(standard_quantities(flow)[1], flow);
  std::vector<float> saturation(400, 0);
  for (std::size_t i = 0; i < 400; ++i) {  // all but the corner
    if (i / 20 < 12 || i % 20 < 12) saturation[i] = 1;
  }
  EXPECT_EQ(producer(saturation), 0);
  saturation[12 * 20 + 12] = 0.25f;
  EXPECT_EQ(producer(saturation), 0.25f);
  EXPECT_TRUE(standard_quantities(flow)[1].has_crossing());
  EXPECT_EQ(standard_quantities(flow)[1].threshold, 0.05);
}

TEST(Quantity, FileIsReadAndMistakesAreNamed) {
  TestFolder folder;
  const auto read = [&](const std::string& toml) {
    write_file_atomically(folder / "q.toml", toml);
    return read_quantities(folder / "q.toml");
  };
  const auto list = read(
      "[[quantity]]\nname = \"a\"\nreduce = \"max\"\nrows = [0, 4]\ncrossing = \"below\"\n"
      "threshold = -2.5\n[[quantity]]\nname = \"b\"\n");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].rows, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(list[0].threshold, -2.5);
  EXPECT_EQ(list[1].reduce, "mean");
  EXPECT_FALSE(list[1].has_crossing());
  EXPECT_EQ(to_json(quantities_from_json(to_json(list), "x")), to_json(list));

  const auto error = [&](const std::string& toml) { return error_of([&] { read(toml); }); };
  const std::string file = (folder / "q.toml").string();
  for (const auto& [toml, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "has no [[quantity]] table"},
           {"[quantity]\nname = \"a\"\n", "unknown key quantity"},
           {"x = 1\n", "unknown key x"},
           {"[[quantity]]\nreduce = \"max\"\n", "quantity 1: name is not set"},
           {"[[quantity]]\nname = \"a\"\n[[quantity]]\nname = \"a\"\n", "name a is taken"},
           {"[[quantity]]\nname = \"a\"\nreduce = \"sum\"\n", "reduce must be one of mean"},
           {"[[quantity]]\nname = \"a\"\nredcue = \"max\"\n", "the nearest valid key is reduce"},
           {"[[quantity]]\nname = \"a\"\nrows = [-1, 2]\n", "rows must be"},
           {"[[quantity]\n", "not valid TOML"}}) {
    EXPECT_NE(error(toml).find(words), std::string::npos) << error(toml);
    EXPECT_EQ(error(toml).rfind(file, 0), 0u) << error(toml);
  }
}

}  // namespace
}  // namespace slift
