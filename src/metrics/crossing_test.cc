#include "metrics/crossing.h"

#include <gtest/gtest.h>

#include <set>

namespace slift {
namespace {

TrajectoryInfo field_info(const std::string& system, std::int64_t steps, std::int64_t height,
                          std::int64_t width) {
  TrajectoryInfo info;
  info.steps = steps, info.state_shape = {1, height, width}, info.system = system;
  return info;
}

TEST(Crossing, BorderHasEveryOutermostCellOnce) {
  const auto cells = border_cells(3, 4);
  EXPECT_EQ(std::set<std::int64_t>(cells.begin(), cells.end()),
            (std::set<std::int64_t>{0, 1, 2, 3, 4, 7, 8, 9, 10, 11}));
  EXPECT_EQ(cells.size(), 10u);
  EXPECT_EQ(border_cells(64, 64).size(), 252u);
  EXPECT_EQ(border_cells(1, 1), std::vector<std::int64_t>{0});
}

TEST(Crossing, CornerIsTheLowerRightOne) {
  EXPECT_EQ(corner_cells(3, 4, 2), (std::vector<std::int64_t>{6, 7, 10, 11}));
  EXPECT_EQ(corner_cells(96, 96, 8).size(), 64u);
  EXPECT_EQ(corner_cells(96, 96, 8).back(), 96 * 96 - 1);
  EXPECT_EQ(corner_cells(2, 2, 8).size(), 4u);
}

TEST(Crossing, FirstStepAboveTheThresholdCounts) {
  const TrajectoryInfo info = field_info("wave", 5, 3, 3);
  const CrossingRule rule = *paper_crossing_rule(info);
  std::vector<float> states(45, 0.0f);
  EXPECT_FALSE(first_crossing(states, info, rule));
  states[2 * 9 + 4] = 1;  // the centre is not watched
  EXPECT_FALSE(first_crossing(states, info, rule));
  states[4 * 9 + 8] = 0.06f;
  EXPECT_DOUBLE_EQ(*first_crossing(states, info, rule), 1.0);
  states[3 * 9 + 1] = 0.05f - 1e-6f;  // not above
  EXPECT_DOUBLE_EQ(*first_crossing(states, info, rule), 1.0);
  states[3 * 9 + 3] = 0.0501f;
  EXPECT_DOUBLE_EQ(*first_crossing(states, info, rule), 0.75);
  states[0] = 2;
  EXPECT_DOUBLE_EQ(*first_crossing(states, info, rule), 0.0);
}

TEST(Crossing, FlowWatchesTheProducer) {
  const TrajectoryInfo info = field_info("flow", 3, 20, 20);
  const CrossingRule rule = *paper_crossing_rule(info);
  std::vector<float> states(3 * 400, 0.0f);
  for (std::size_t i = 0; i < 400; ++i) {  // all but the corner
    if (i / 20 < 12 || i % 20 < 12) states[400 + i] = 1;
  }
  EXPECT_FALSE(first_crossing(states, info, rule));
  states[400 + 12 * 20 + 12] = 1;
  EXPECT_DOUBLE_EQ(*first_crossing(states, info, rule), 0.5);
}

TEST(Crossing, OtherSystemsHaveNoRule) {
  EXPECT_FALSE(paper_crossing_rule(field_info("scene", 2, 8, 8)));
  TrajectoryInfo vector;
  vector.steps = 2, vector.state_shape = {2}, vector.system = "wave";
  EXPECT_FALSE(paper_crossing_rule(vector));
}

}  // namespace
}  // namespace slift
