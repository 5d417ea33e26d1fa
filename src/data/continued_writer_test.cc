// TrajectoryWriter across processes that are killed, and how its files depend on the pieces.
#include <gtest/gtest.h>

#include "core/random.h"
#include "core/testing.h"
#include "data/testing.h"
#include "data/trajectories.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using FileNames = std::vector<std::string>;

class ContinuedWriterTest : public testing::Test {
 protected:
  ContinuedWriterTest() : info_(make_info(5, 4, {2, 3, 1})), states_(5 * 4 * 6) {
    fill_normal({1, Purpose::kSystemNoise, 0, 0}, states_);
    TrajectoryWriter writer(folder_ / "whole.h5", info_);
    writer.write(0, 5, states_);
    writer.commit();
    whole_ = read_file(folder_ / "whole.h5");
    fs::remove(folder_ / "whole.h5");
  }

  std::span<const float> members(std::int64_t first, std::int64_t count) const {
    return std::span(states_).subspan(static_cast<std::size_t>(first * 24),
                                      static_cast<std::size_t>(count * 24));
  }
  // The first two of five trajectories, recorded, and something of the third.
  void leave_two(const std::string& work) const {
    TrajectoryWriter writer(folder_ / "x.h5", info_, work);
    writer.write(0, 2, members(0, 2));
    writer.record(2);
    writer.write_steps(2, 1, 0, 1, std::vector<float>(6, 7.0f));
    writer.keep();
  }
  std::int64_t recorded(const TrajectoryInfo& info, const std::string& work) const {
    return TrajectoryWriter(folder_ / "x.h5", info, work).recorded();
  }

  TestFolder folder_;
  TrajectoryInfo info_;
  std::vector<float> states_;
  std::string whole_;
};

TEST_F(ContinuedWriterTest, BytesDoNotDependOnThePieces) {
  TrajectoryWriter writer(folder_ / "x.h5", info_);
  const auto write = [&](std::int64_t first, std::int64_t count, std::int64_t step,
                         std::int64_t steps) {
    std::vector<float> box;
    for (std::int64_t m = first; m < first + count; ++m) {
      const auto states = members(m, 1).subspan(static_cast<std::size_t>(step * 6),
                                                static_cast<std::size_t>(steps * 6));
      box.insert(box.end(), states.begin(), states.end());
    }
    writer.write_steps(first, count, step, steps, box);
  };
  write(3, 2, 0, 4);
  write(0, 3, 2, 2);
  write(1, 2, 0, 2);
  write(0, 1, 1, 1);
  write(0, 1, 0, 1);
  EXPECT_THROW(writer.write_steps(0, 1, 3, 2, std::vector<float>(12)), std::logic_error);
  EXPECT_THROW(writer.write_steps(0, 1, -1, 2, std::vector<float>(12)), std::logic_error);
  EXPECT_THROW(writer.write_steps(0, 2, 0, 2, std::vector<float>(12)), std::logic_error);
  writer.commit();
  EXPECT_TRUE(read_file(folder_ / "x.h5") == whole_);
}

TEST_F(ContinuedWriterTest, GoesOnWhereTheLastOneRecorded) {
  leave_two("w");
  EXPECT_EQ(folder_.files(), (FileNames{"x.h5.partial", "x.h5.partial.journal"}));
  {
    TrajectoryWriter writer(folder_ / "x.h5", info_, "w");
    EXPECT_EQ(writer.recorded(), 2);
    writer.write(2, 2, members(2, 2));
    writer.record(4);
    writer.keep();
  }
  TrajectoryWriter writer(folder_ / "x.h5", info_, "w");
  EXPECT_EQ(writer.recorded(), 4);
  writer.write(4, 1, members(4, 1));
  writer.commit();
  EXPECT_TRUE(read_file(folder_ / "x.h5") == whole_);
}

TEST_F(ContinuedWriterTest, CommitAndFailureLeaveNoJournal) {
  leave_two("w");
  { const TrajectoryWriter given_up(folder_ / "x.h5", info_, "w"); }
  EXPECT_EQ(folder_.files(), FileNames{});
  leave_two("w");
  TrajectoryWriter(folder_ / "x.h5", info_, "w").commit();
  EXPECT_EQ(folder_.files(), FileNames{"x.h5"});
}

TEST_F(ContinuedWriterTest, OtherWorkStartsAnew) {
  TrajectoryInfo other = info_;
  other.seed = 1;
  leave_two("w");
  EXPECT_EQ(recorded(other, "w"), 0);
  leave_two("w");
  EXPECT_EQ(recorded(info_, "v"), 0);
  leave_two("w");
  EXPECT_EQ(recorded(info_, ""), 0);
  leave_two("w");
  fs::resize_file(folder_ / "x.h5.partial", 1000);
  EXPECT_EQ(recorded(info_, "w"), 0);
  leave_two("w");
  fs::remove(folder_ / "x.h5.partial");
  EXPECT_EQ(recorded(info_, "w"), 0);
  leave_two("w");
  EXPECT_EQ(recorded(info_, "w"), 2);
}

TEST_F(ContinuedWriterTest, OneWritesAtATime) {
  {
    TrajectoryWriter first(folder_ / "x.h5", info_, "w");
    EXPECT_NE(error_of([&] {
                TrajectoryWriter(folder_ / "x.h5", info_, "w");
              }).find("another slift is writing this file"),
              std::string::npos);
    first.write(0, 5, members(0, 5));
    first.commit();
  }
  EXPECT_TRUE(read_file(folder_ / "x.h5") == whole_);
  EXPECT_EQ(folder_.files(), FileNames{"x.h5"});
}

TEST_F(ContinuedWriterTest, AJournalDoesNotOutliveItsFile) {
  // Killed right after it started anew: the old journal must not speak for the new file.
  leave_two("w");
  TrajectoryWriter(folder_ / "x.h5", info_, "v").keep();
  EXPECT_EQ(folder_.files(), FileNames{"x.h5.partial"});
}

}  // namespace
}  // namespace slift
