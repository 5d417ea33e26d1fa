#include "data/state_map.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/testing.h"
#include "data/testing.h"

namespace slift {
namespace {

std::vector<float> applied(const StateMap& map, std::int64_t state_size) {
  std::vector<float> state(static_cast<std::size_t>(state_size));
  std::iota(state.begin(), state.end(), 0.0f);
  std::vector<float> kept(static_cast<std::size_t>(map.size()), -1.0f);
  map.apply(state, kept);
  return kept;
}

TEST(StateMapTest, AllIsTheState) {
  TrajectoryInfo info = make_info(1, 2, {2, 1, 3});
  info.fields = {"u", "v"};
  const StateMap map = keep_all(info);
  EXPECT_EQ(map.shape, info.state_shape);
  EXPECT_EQ(map.fields, info.fields);
  EXPECT_EQ(map.record, "");
  EXPECT_EQ(applied(map, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(StateMapTest, FieldsAreChannelsOrComponents) {
  TrajectoryInfo info = make_info(1, 2, {3, 1, 2});
  info.fields = {"u", "v", "w"};
  const StateMap channels = keep_fields(info, {"w", "u"});
  EXPECT_EQ(channels.shape, (std::vector<std::int64_t>{2, 1, 2}));
  EXPECT_EQ(channels.fields, (std::vector<std::string>{"w", "u"}));
  EXPECT_EQ(channels.record, "");
  EXPECT_EQ(applied(channels, 6), (std::vector<float>{4, 5, 0, 1}));

  info.state_shape = {3};
  const StateMap components = keep_fields(info, {"v"});
  EXPECT_EQ(components.shape, std::vector<std::int64_t>{1});
  EXPECT_EQ(applied(components, 3), std::vector<float>{1});
}

TEST(StateMapTest, UnknownFieldsAreNamedWithTheKnown) {
  TrajectoryInfo info = make_info(1, 2, {2});
  info.fields = {"u", "v"};
  EXPECT_EQ(error_of([&] {
              keep_fields(info, {"u", "x"});
            }),
            "--fields: unknown field x; there are u, v");
  info.fields = {};
  EXPECT_EQ(error_of([&] { keep_fields(info, {"u"}); }),
            "--fields: unknown field u; there are x1, x2");
}

}  // namespace
}  // namespace slift
