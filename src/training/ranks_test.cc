#include "training/ranks.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace slift {
namespace {

// Ends with 0 if a broken pipe did not end it.
[[noreturn]] void connect_and_break_a_pipe() {
  setenv("MASTER_PORT", "29517", 1);
  const Ranks ranks({.rank = 0, .size = 1}, at::kCPU);
  if (!ranks.connected()) std::exit(1);
  std::raise(SIGPIPE);
  std::exit(0);
}

// Whether a lost rank is noticed by reading or by writing is a matter of luck.
TEST(RanksDeathTest, WritingToALostRankEndsNobodyByASignal) {
  ASSERT_NE(rank_backends(), "") << "libgloo-dev was not there when this was built";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(connect_and_break_a_pipe(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace slift
