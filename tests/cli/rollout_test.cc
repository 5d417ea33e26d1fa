// Members are the same bits whatever the chunk size, thread count and selection, and a rollout that
// was stopped at any moment ends with the same file as one that was not.
#include <torch/autograd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "core/atomic_file.h"
#include "data/trajectories.h"
#include "fixture.h"
#include "methods/transition_model.h"

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

  static ProcessResult roll_out(const std::string& out, std::vector<std::string> more,
                                const ProcessOptions& options = {}) {
    std::vector<std::string> words = {"rollout",       path("run"), "--init",
                                      path("test.h5"), "-o",        path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run_slift(words, options);
  }

  // How many members a rollout to `out` has recorded.
  static std::int64_t recorded(const std::string& out) {
    const std::string journal = path(out) + ".partial.journal";
    std::ifstream in(journal);
    const auto content = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    return content.is_object() ? content.value("done", std::int64_t{0}) : 0;
  }

  // Stops the rollout at random moments by `signal`, going on each time, until it has been stopped
  // three times; then lets it finish. The file must be the bytes of an unstopped one.
  static void stop_and_continue(int signal, std::vector<std::string> more) {
    std::filesystem::remove(path("parts.h5"));
    more.insert(more.end(), {"-m", "60000", "--chunk", "256", "--threads", "1"});
    const auto whole = roll_out("whole.h5", more);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    std::mt19937 random(std::random_device{}());
    for (int stopped = 0; stopped < 3; ++stopped) {
      ProcessOptions options;
      options.signal = signal;
      // Counted from here: an earlier process may have recorded more than it was to.
      const std::int64_t until =
          recorded("parts.h5") + std::uniform_int_distribution<int>(1, 12000)(random);
      options.kill_when = [&] { return recorded("parts.h5") >= until; };
      const auto r = roll_out("parts.h5", more, options);
      ASSERT_EQ(r.exit_code, signal == SIGKILL ? -1 : 130) << r.err;
      if (signal != SIGKILL) {
        EXPECT_NE(r.err.find("the same command continues"), std::string::npos) << r.err;
      }
      ASSERT_FALSE(std::filesystem::exists(path("parts.h5")));
    }
    const auto last = roll_out("parts.h5", more);
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_NE(last.err.find("continuing at member"), std::string::npos) << last.err;
    EXPECT_TRUE(read_file(path("parts.h5")) == read_file(path("whole.h5")));
    for (const char* name : {"parts.h5.partial", "parts.h5.partial.journal"}) {
      EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
    }
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

TEST_F(RolloutCliTest, SelectionsAreThoseOfTheFullRun) {
  ASSERT_EQ(roll_out("full.h5", {"-m", "300", "-q"}).exit_code, 0);
  const auto full = states_of(path("full.h5"));
  const auto at = [&](std::size_t member, std::size_t step, std::size_t component) {
    return full[(member * 71 + step) * 2 + component];
  };
  const TrajectoryInfo all = TrajectoryReader(path("full.h5")).info();
  const auto some =
      roll_out("some.h5", {"-m", "100:230", "--every", "7", "--fields", all.fields.at(1), "-q"});
  ASSERT_EQ(some.exit_code, 0) << some.err;
  const TrajectoryInfo info = TrajectoryReader(path("some.h5")).info();
  EXPECT_EQ(info.describe_shape(), "130 x 11 x 1");
  EXPECT_EQ(info.first_member, 100);
  EXPECT_DOUBLE_EQ(info.dt, 7 * all.dt);
  EXPECT_EQ(info.fields, std::vector<std::string>{all.fields.at(1)});
  const auto states = states_of(path("some.h5"));
  for (std::size_t i = 0; i < states.size(); ++i) {
    ASSERT_EQ(states[i], at(100 + i / 11, i % 11 * 7, 1)) << i;
  }
}

TEST_F(RolloutCliTest, BranchesOfOneState) {
  const auto r = roll_out("branches.h5", {"-m", "6", "--branches", "3", "--first", "5", "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto states = states_of(path("branches.h5")), initial = states_of(path("test.h5"));
  for (std::size_t m = 0; m < 6; ++m) {
    EXPECT_EQ(states[m * 142], initial[(5 + m / 3) * 142]) << m;
    EXPECT_NE(states[m * 142 + 141], states[(m + 1) % 6 * 142 + 141]) << m;
  }
}

TEST_F(RolloutCliTest, KilledAndContinuedGivesTheSameFile) {
  stop_and_continue(SIGKILL, {});
  stop_and_continue(SIGKILL, {"--no-states"});
}

TEST_F(RolloutCliTest, InterruptedAndContinuedGivesTheSameFile) { stop_and_continue(SIGINT, {}); }

TEST_F(RolloutCliTest, AnotherBatchDoesNotContinue) {
  const std::vector<std::string> same = {"-m", "20000", "-n", "20", "--chunk", "64"};
  std::vector<std::string> batched = same;
  batched.insert(batched.end(), {"--batch", "32"});
  ProcessOptions options;
  options.signal = SIGINT;
  options.kill_when = [] { return recorded("batch.h5") > 0; };
  const auto stopped = roll_out("batch.h5", batched, options);
  ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  const auto r = roll_out("batch.h5", same);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.err.find("continuing"), std::string::npos) << r.err;
}

TEST_F(RolloutCliTest, OtherOptionsDoNotContinue) {
  ProcessOptions options;
  options.signal = SIGINT;
  options.kill_when = [] { return recorded("other.h5") > 0; };
  const auto stopped = roll_out("other.h5", {"-m", "1000000", "--chunk", "64"}, options);
  ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  ASSERT_TRUE(std::filesystem::exists(path("other.h5.partial.journal"))) << stopped.err;
  const auto r = roll_out("other.h5", {"-m", "64", "-s", "1"});
  EXPECT_EQ(r.err.find("continuing"), std::string::npos) << r.err;
  ASSERT_EQ(roll_out("fresh.h5", {"-m", "64", "-s", "1", "-q"}).exit_code, 0);
  EXPECT_TRUE(read_file(path("other.h5")) == read_file(path("fresh.h5")));
  EXPECT_FALSE(std::filesystem::exists(path("other.h5.partial.journal")));
}

TEST_F(RolloutCliTest, DivergenceNamesMemberAndStepAndLeavesNothing) {
  ModelSpec spec = load_model(path("run/model.safetensors")).spec();
  spec.net.layers = 1;
  TransitionModel model(spec);
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& p : model.backbone().parameters()) p.fill_(1e38f);
    model.backbone().named_parameters()["weight0"].zero_();
  }
  save_model(path("unstable.safetensors"), model);
  const auto r = run_slift({"rollout", path("unstable.safetensors"), "--init", path("test.h5"),
                            "-m", "7:9", "-o", path("bad.h5"), "-q"});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_NE(r.err.find("diverged: member 7 is inf at step 1;"), std::string::npos) << r.err;
  for (const char* name : {"bad.h5", "bad.h5.partial", "bad.h5.partial.journal"}) {
    EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
  }
}

}  // namespace
}  // namespace slift::testing
