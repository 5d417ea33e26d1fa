// A 20 GB data set goes through info, evaluate and training in bounded memory, and so do 5 GB of
// states through a rollout. The data file is sparse: what was never written reads as zeros, at full
// size for every reader.
#include <nlohmann/json.hpp>

#include "data/hdf5.h"
#include "data/trajectories.h"
#include "fixture.h"
#include "methods/transition_model.h"

namespace slift::testing {
namespace {

class MemoryTest : public CliTest {
 protected:
  static constexpr std::int64_t kMembers = 35'300'000;  // x 71 x 2 x 4 bytes = 20.05 GB
  static constexpr std::int64_t kLimitKib = 1'500'000;

  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    const TrajectoryReader real(path("train.h5"));
    TrajectoryInfo info = real.info();
    std::vector<float> some(static_cast<std::size_t>(64 * info.trajectory_size()));
    real.read(0, 64, some);
    info.members = kMembers;
    TrajectoryWriter writer(path("large.h5"), info);
    for (int i = 0; i < 200; ++i) writer.write(i * (kMembers / 200), 64, some);
    writer.commit();
  }
};

TEST_F(MemoryTest, Info) {
  const auto r = run_slift({"info", path("large.h5"), "--stats", "--preview", path("large.png"),
                            "--preview", path("large.apng"), "--json", "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out).at("members"), kMembers);
  EXPECT_GT(nlohmann::json::parse(r.out).at("stats").at("std").at(0).get<double>(), 0);
  EXPECT_LT(r.peak_resident_kib, kLimitKib);
}

TEST_F(MemoryTest, Evaluate) {
  const auto r =
      run_slift({"evaluate", path("train.h5"), "--truth", path("large.h5"), "--json", "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out).at("moments").at("truth_members"), kMembers);
  EXPECT_LT(r.peak_resident_kib, kLimitKib);
}

TEST_F(MemoryTest, Training) {
  // 945,000 trajectories make a pool; a batch of 2^20 for 70 steps crosses into the second.
  const auto r = run_slift({"train", path("small.toml"), "--data", path("large.h5"), "-o",
                            path("large-run"), "--set", "train.iterations=70", "--set",
                            "train.batch=1048576", "--set", "net.width=4", "--json", "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out).at("iterations"), 70);
  EXPECT_LT(r.peak_resident_kib, kLimitKib);
}

TEST_F(MemoryTest, Rollout) {
  // States of 4096 numbers from a network of one neuron; one number of each is stored.
  ModelSpec spec;
  spec.state_shape = {4096};
  spec.net.layers = 1, spec.net.width = 1;
  spec.normaliser = {std::vector<float>(4096, 0), std::vector<float>(4096, 1),
                     std::vector<float>(4096, 1)};
  for (int i = 0; i < 4096; ++i) spec.fields.push_back("x" + std::to_string(i));
  save_model(path("wide.safetensors"), TransitionModel(spec));
  TrajectoryInfo info;
  info.members = info.steps = 1;
  info.state_shape = {4096};
  TrajectoryWriter writer(path("wide.h5"), info);
  writer.write(0, 1, std::vector<float>(4096, 0.5f));
  writer.commit();
  const auto r = run_slift({"rollout", path("wide.safetensors"), "--init", path("wide.h5"), "-m",
                            "640", "--steps", "500", "--chunk", "1000", "--fields", "x7", "-o",
                            path("wide-out.h5"), "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(TrajectoryReader(path("wide-out.h5")).info().describe_shape(), "640 x 501 x 1");
  EXPECT_LT(r.peak_resident_kib, 700'000);
}

}  // namespace
}  // namespace slift::testing
