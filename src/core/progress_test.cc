#include "core/progress.h"

#include <gtest/gtest.h>

namespace slift {
namespace {

// What `draw` printed. Captured standard error is no terminal, so lines are plain.
template <typename Draw>
std::string printed(const Draw& draw) {
  testing::internal::CaptureStderr();
  draw();
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(-3), "0:00");
  EXPECT_EQ(format_duration(9.4), "0:09");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(75), "1:15");
  EXPECT_EQ(format_duration(3599.4), "59:59");
  EXPECT_EQ(format_duration(3700), "1:01:40");
  EXPECT_EQ(format_duration(360000), "100:00:00");
}

TEST(Progress, LastLineSaysWhatWasDone) {
  const std::string text = printed([] {
    Progress progress("training", "it", 10);
    for (int i = 1; i <= 10; ++i) progress.update(i, "loss 0.5");
    progress.update(10);  // an empty note keeps the last one
  });
  EXPECT_EQ(text.rfind("training   100% 10/10 it, ", 0), 0u) << text;
  EXPECT_NE(text.find("took 0:00, loss 0.5\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "fast work prints one line only";
}

TEST(Progress, ResumedWorkDoesNotCountTowardsTheRate) {
  const std::string text = printed([] { Progress progress("training", "it", 10, 4); });
  EXPECT_NE(text.find(" 40% 4/10 it, 0 it/s"), std::string::npos) << text;
}

TEST(Progress, CanBeSilenced) {
  Progress::set_enabled(false);
  EXPECT_EQ(printed([] { Progress("training", "it", 10).update(3); }), "");
  Progress::set_enabled(true);
  EXPECT_NE(printed([] { Progress("training", "it", 10).update(3); }), "");
}

}  // namespace
}  // namespace slift
