// A run killed at any moment and resumed ends with the same bytes as one that was never stopped.
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "core/atomic_file.h"
#include "fixture.h"

namespace slift::testing {
namespace {

class ResumeTest : public CliTest {
 protected:
  static std::int64_t lines_in(const std::string& file) {
    std::ifstream in(file);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }
};

TEST_F(ResumeTest, KilledFiveTimesGivesTheSameModel) {
  const auto whole = run_slift({"train", path("small.toml"), "-o", path("whole"), "-q"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;

  std::mt19937 random(std::random_device{}());
  for (int killed = 0; killed < 5; ++killed) {
    // At a random one of the next 15 of the log's 100 lines, whatever the speed of the machine.
    const int line = 15 * killed + std::uniform_int_distribution<int>(1, 15)(random);
    ProcessOptions options;
    options.kill_when = [&] { return lines_in(path("parts/metrics.jsonl")) >= line; };
    const auto part =
        run_slift({"train", path("small.toml"), "-o", path("parts"), "--resume", "-q"}, options);
    ASSERT_EQ(part.exit_code, -1) << part.err;
  }
  const auto last = run_slift({"train", path("small.toml"), "-o", path("parts"), "--resume", "-q"});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(read_file(path("parts/model.safetensors")), read_file(path("whole/model.safetensors")));

  // The log, too, is as if never stopped, but for the wall clock.
  std::ifstream a(path("parts/metrics.jsonl")), b(path("whole/metrics.jsonl"));
  std::string line_a, line_b;
  int lines = 0;
  while (std::getline(b, line_b)) {
    ASSERT_TRUE(std::getline(a, line_a));
    auto json_a = nlohmann::json::parse(line_a), json_b = nlohmann::json::parse(line_b);
    json_a.erase("seconds"), json_b.erase("seconds");
    ASSERT_EQ(json_a, json_b);
    ++lines;
  }
  EXPECT_EQ(lines, 100);
  EXPECT_FALSE(std::getline(a, line_a));
}

TEST_F(ResumeTest, SignalsLeaveACheckpoint) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = path("signal-" + std::to_string(signal));
    ProcessOptions options;
    options.signal = signal;
    options.kill_after_ms = 3000;  // well after the program is up, on a busy machine too
    const auto stopped =
        run_slift({"train", path("small.toml"), "-o", run, "-q", "--set",
                   "train.iterations=1000000", "--set", "train.checkpoint_every=1000000"},
                  options);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
    EXPECT_NE(stopped.err.find("--resume"), std::string::npos);
    int checkpoints = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints")) {
      checkpoints += entry.path().extension() != ".partial";
    }
    EXPECT_EQ(checkpoints, 1);
  }
}

// An unfinished checkpoint may be one that another process is writing.
TEST_F(ResumeTest, OnlyTheTrainerRemovesUnfinishedCheckpoints) {
  const std::filesystem::path partial = path("run/checkpoints/step-00099999.partial");
  std::filesystem::create_directories(partial);
  const auto info = run_slift({"info", path("run")});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_EQ(info.out.find(".partial"), std::string::npos) << info.out;
  const std::vector<std::string> train = {"train", path("small.toml"),   "-q", "-o", path("run"),
                                          "--set", "train.iterations=20"};
  EXPECT_EQ(run_slift(train).exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(partial));
  auto resume = train;
  resume.push_back("--resume");
  const auto resumed = run_slift(resume);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_FALSE(std::filesystem::exists(partial));
}

}  // namespace
}  // namespace slift::testing
