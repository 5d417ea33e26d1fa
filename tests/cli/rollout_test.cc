// Members are the same bits whatever the chunk size and thread count.
#include "data/trajectories.h"
#include "fixture.h"

namespace slift::testing {
namespace {

class RolloutCliTest : public CliTest {
 protected:
  static std::vector<float> states_of(const std::string& file) {
    const TrajectoryReader reader(file);
    std::vector<float> states(
        static_cast<std::size_t>(reader.info().members * reader.info().trajectory_size()));
    reader.read(0, reader.info().members, states);
    return states;
  }
};

TEST_F(RolloutCliTest, ChunksAndThreadsChangeNothing) {
  std::vector<float> expected;
  for (const char* chunk : {"1000", "37", "1"}) {
    for (const char* threads : {"1", "2"}) {
      const auto rolled =
          run_slift({"rollout", path("run"), "--init", path("test.h5"), "-m", "1000", "--chunk",
                     chunk, "--threads", threads, "-o", path("r.h5"), "-q"});
      ASSERT_EQ(rolled.exit_code, 0) << rolled.err;
      const auto states = states_of(path("r.h5"));
      ASSERT_EQ(states.size(), 1000u * 71 * 2);
      if (expected.empty()) expected = states;
      EXPECT_EQ(std::memcmp(states.data(), expected.data(), states.size() * sizeof(float)), 0)
          << "chunk " << chunk << ", threads " << threads;
    }
  }
}

TEST_F(RolloutCliTest, SeedAndMemberMatter) {
  for (const char* seed : {"1", "2"}) {
    ASSERT_EQ(run_slift({"rollout", path("run"), "--init", path("test.h5"), "-m", "2", "-s", seed,
                         "-o", path(std::string("s") + seed), "-q"})
                  .exit_code,
              0);
  }
  const auto a = states_of(path("s1")), b = states_of(path("s2"));
  EXPECT_EQ(a[0], b[0]);  // the same initial state
  EXPECT_NE(a.back(), b.back());
}

}  // namespace
}  // namespace slift::testing
