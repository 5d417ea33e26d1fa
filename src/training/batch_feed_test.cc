#include "training/batch_feed.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

class BatchFeedTest : public testing::TestWithParam<at::Device> {
 protected:
  static constexpr std::int64_t kMembers = 7, kSteps = 5, kWindow = 3;

  BatchFeedTest() {
    TrajectoryInfo info;
    info.members = kMembers, info.steps = kSteps, info.state_shape = {2, 3, 4};
    std::vector<float> states(static_cast<std::size_t>(kMembers * info.trajectory_size()));
    fill_normal({1, Purpose::kSystemNoise, 0, 0}, states);
    TrajectoryWriter writer(folder_ / "x.h5", info);
    writer.write(0, kMembers, states);
    writer.commit();
    reader_.emplace(folder_ / "x.h5");
  }

  BatchFeed feed(const FeedLimits& limits) {
    return BatchFeed(*reader_, kMembers, kWindow, 9, limits, GetParam());
  }

  TestFolder folder_;
  std::optional<TrajectoryReader> reader_;
};

TEST_P(BatchFeedTest, GivesTheSamplersTransitions) {
  constexpr std::int64_t kAll = 1 << 20, kTwo = 2 * kSteps * 24 * 4;
  for (const FeedLimits limits : {FeedLimits{kAll, kAll}, {kAll, 0}, {2 * kTwo, kAll}}) {
    BatchFeed batches = feed(limits);
    const bool resident = limits.host_bytes == kAll && limits.device_bytes == kAll;
    EXPECT_EQ(batches.on_gpu(), resident && GetParam().is_cuda());
    TransitionSampler sampler(*reader_, kMembers, kWindow, 9, limits.host_bytes);
    for (const std::int64_t first : {0, 10, 25}) {
      Batch expected;
      sampler.fill(first, 10, expected);
      const DeviceBatch got = batches.get(first, 10);
      EXPECT_EQ(got.window.device().type(), GetParam().type());
      EXPECT_TRUE(
          at::equal(got.window.cpu(), at::tensor(expected.window).view({10, kWindow, 2, 3, 4})));
      EXPECT_TRUE(at::equal(got.next.cpu(), at::tensor(expected.next).view({10, 2, 3, 4})));
      EXPECT_TRUE(at::equal(got.transition.cpu(), at::tensor(expected.transition, at::kLong)));
    }
  }
}

// What a recorded step relies on: addresses stay, contents follow.
TEST_P(BatchFeedTest, StagesAtTheSamePlacesAndAssemblesParts) {
  for (const std::int64_t device_bytes : {1 << 20, 0}) {
    BatchFeed batches = feed({1 << 20, device_bytes});
    StagedBatch staged;
    batches.stage(0, 6, staged);
    const std::vector<const void*> places = {staged.window.data_ptr(), staged.next.data_ptr(),
                                             staged.transition.data_ptr()};
    for (const std::int64_t first : {6, 12, 18, 24}) {
      batches.stage(first, 6, staged);
      EXPECT_EQ(places, (std::vector<const void*>{staged.window.data_ptr(), staged.next.data_ptr(),
                                                  staged.transition.data_ptr()}));
      for (const std::int64_t begin : {0, 2, 4}) {
        const DeviceBatch part = batches.assemble(staged, begin, 2);
        const DeviceBatch expected = batches.get(first + begin, 2);
        EXPECT_TRUE(at::equal(part.window, expected.window));
        EXPECT_TRUE(at::equal(part.next, expected.next));
        EXPECT_TRUE(at::equal(part.transition, expected.transition));
      }
    }
    batches.stage(0, 3, staged);
    EXPECT_EQ(staged.transition.size(0), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchFeedTest, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
