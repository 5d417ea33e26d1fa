#include "report/snapshots.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/testing.h"

namespace slift {
namespace {

TEST(Snapshots, StepsAreEvenlySpacedWithBothEnds) {
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(evenly_spaced(0, 70, 8), (Steps{0, 10, 20, 30, 40, 50, 60, 70}));
  EXPECT_EQ(evenly_spaced(0, 8, 8), (Steps{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(evenly_spaced(1, 3, 8), (Steps{1, 2, 3}));
  EXPECT_EQ(evenly_spaced(4, 4, 8), (Steps{4}));
  EXPECT_EQ(evenly_spaced(2, 9, 1), (Steps{2}));
}

TEST(Snapshots, LabelsHaveAsManyDecimalsAsTheTimeStepNeeds) {
  EXPECT_EQ(time_label(14, 0.2), "t = 2.8");
  EXPECT_EQ(time_label(15, 0.2), "t = 3.0");
  EXPECT_EQ(time_label(7, 1), "t = 7");
  EXPECT_EQ(time_label(63, 8.0 / 63), "t = 8.000");
  EXPECT_EQ(time_label(3, 0.014), "t = 0.042");
  EXPECT_EQ(time_label(5, 1e-7), "t = 5e-07");
  EXPECT_EQ(time_label(2, 1e9), "t = 2e+09");
  EXPECT_EQ(time_label(2, 0), "t = 0");
  EXPECT_EQ(time_label(1, std::numeric_limits<double>::quiet_NaN()), "t = nan");
}

class CloudTest : public ::testing::Test {
 protected:
  // Component c of member m at step t is 100 m + 10 t + c.
  TrajectoryReader counted(std::int64_t components) const {
    TrajectoryInfo info;
    info.members = 3, info.steps = 4, info.state_shape = {components};
    std::vector<float> states;
    for (std::int64_t i = 0; i < 3 * info.trajectory_size(); ++i) {
      const std::int64_t c = i % components, t = i / components % 4, m = i / components / 4;
      states.push_back(static_cast<float>(100 * m + 10 * t + c));
    }
    TrajectoryWriter writer(folder_ / "x.h5", info);
    writer.write(0, 3, states);
    writer.commit();
    return TrajectoryReader(folder_ / "x.h5");
  }

  TestFolder folder_;
};

TEST_F(CloudTest, ShowsTheFirstTwoComponents) {
  const TrajectoryReader reader = counted(5);
  EXPECT_EQ(first_shown_step(reader.info()), 0);
  const Cloud cloud = read_cloud(reader, 2, 3);
  ASSERT_EQ(cloud.size(), 2U);
  EXPECT_EQ(cloud[1].x, 130);
  EXPECT_EQ(cloud[1].y, 131);
}

TEST_F(CloudTest, ShowsASingleComponentAgainstItsPast) {
  const TrajectoryReader reader = counted(1);
  EXPECT_EQ(first_shown_step(reader.info()), 1);
  const Cloud cloud = read_cloud(reader, 3, 2);
  ASSERT_EQ(cloud.size(), 3U);
  EXPECT_EQ(cloud[2].x, 210);
  EXPECT_EQ(cloud[2].y, 220);
}

TEST_F(CloudTest, FrameHoldsAllCloudsWithAMargin) {
  const Frame frame = frame_of({{{0, 5}}, {{100, 5}, {50, 7}}});
  EXPECT_DOUBLE_EQ(frame.x.low, -6);
  EXPECT_DOUBLE_EQ(frame.x.high, 106);
  EXPECT_DOUBLE_EQ(frame.y.low, 4.88);
  EXPECT_DOUBLE_EQ(frame.y.high, 7.12);
}

}  // namespace
}  // namespace slift
