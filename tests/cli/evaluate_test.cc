// Ensembles of fields and vectors from rollout to evaluation and comparison, as a user does it.
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "data/trajectories.h"
#include "fixture.h"

namespace slift::testing {
namespace {

using nlohmann::json;

class EvaluateCliTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    for (const char* seed : {"1", "2"}) {
      ASSERT_EQ(run_slift({"simulate", "wave", "--set", "grid=32", "--set", "stored_grid=16",
                           "--set", "stored=9", "--set", "inner_dt=0.02", "-m", "48", "-s", seed,
                           "-o", path(std::string("wave") + seed + ".h5"), "-q"})
                    .exit_code,
                0);
    }
    const std::string config = SLIFT_SOURCE_DIR "/configs/wave-tiny.toml";
    const auto trained =
        run_slift({"train", config, "--data", path("wave1.h5"), "-o", path("wave-run"), "--set",
                   "train.iterations=30", "--set", "score.from=1", "--set", "net.widths=[8,16]",
                   "--set", "net.label_width=16", "--set", "validation.every=0", "-q"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    write("border.toml",
          "[[quantity]]\nname = \"top\"\nreduce = \"mean\"\nrows = [0, 4]\n"
          "crossing = \"above\"\nthreshold = 0.01\n");
  }

  static json json_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "-q"});
    const auto r = run_slift(arguments);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return json::parse(r.out, nullptr, false);
  }
};

TEST_F(EvaluateCliTest, RecordsTakenOnTheWayEvaluateAsStatesDo) {
  const std::vector<std::string> rollout = {
      "rollout", path("wave-run"), "--init", path("wave2.h5"), "-m", "24"};
  const auto roll = [&](std::vector<std::string> more) {
    std::vector<std::string> all = rollout;
    all.insert(all.end(), more.begin(), more.end());
    json_of(all);
  };
  const std::string quantities = path("border.toml");
  roll({"-o", path("states.h5")});
  roll({"--no-states", "--quantities", quantities, "--chunk", "5", "-o", path("records5.h5")});
  roll({"--no-states", "--quantities", quantities, "--chunk", "24", "-o", path("records.h5")});
  EXPECT_EQ(read_file(path("records.h5")), read_file(path("records5.h5")));
  EXPECT_LT(std::filesystem::file_size(path("records.h5")),
            std::filesystem::file_size(path("states.h5")) / 4);

  const auto scores = [&](const std::string& file) {
    return json_of(
               {"evaluate", path(file), "--truth", path("wave2.h5"), "--quantities", quantities})
        .at("scores");
  };
  EXPECT_EQ(json_of({"info", path("records.h5")}).at("record").at("quantities").size(), 3u);
  const auto misused = run_slift(
      {"train", path("small.toml"), "--data", path("records.h5"), "-o", path("misused"), "-q"});
  EXPECT_EQ(misused.exit_code, 2);
  EXPECT_NE(misused.err.find("holds records"), std::string::npos) << misused.err;

  const auto copies = run_slift({"evaluate", path("records.h5"), "--truth", path("wave2.h5"),
                                 "--training", path("wave1.h5"), "-q"});
  EXPECT_EQ(copies.exit_code, 2);
  EXPECT_NE(copies.err.find("--training: needs states"), std::string::npos) << copies.err;

  const json from_states = scores("states.h5");
  EXPECT_EQ(scores("records.h5"), from_states);
  bool found = false;
  for (const json& score : from_states) {
    found |= score.at("metric") == "W2 of crossing times" && score.at("name") == "top";
  }
  EXPECT_TRUE(found);
}

TEST_F(EvaluateCliTest, MemorisingIsFlagged) {
  const auto memorising = [&](const std::string& generated) {
    return json_of({"evaluate", path(generated), "--truth", path("test.h5"), "--training",
                    path("train.h5"), "--bootstrap", "10"})
        .at("nearest")
        .at("memorising")
        .get<bool>();
  };
  EXPECT_TRUE(memorising("train.h5"));
  json_of({"simulate", "duffing", "-m", "64", "-s", "9", "-o", path("fresh.h5")});
  EXPECT_FALSE(memorising("fresh.h5"));
  const auto words = run_slift({"evaluate", path("train.h5"), "--truth", path("test.h5"),
                                "--training", path("train.h5"), "-q"});
  EXPECT_NE(words.out.find("MEMORISING"), std::string::npos) << words.out;
}

// Copies of the first trajectories, which alone were trained on, are found among those.
TEST_F(EvaluateCliTest, MemorisingIsLookedForAmongWhatWasTrainedOn) {
  json_of({"simulate", "duffing", "-m", "64", "-s", "9", "-o", path("fresh.h5")});
  const auto training_members = [&](const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> command{"evaluate",      run,          "--truth",
                                     path("test.h5"), "--training", path("train.h5"),
                                     "--bootstrap",   "10"};
    command.insert(command.end(), more.begin(), more.end());
    return json_of(command).at("nearest").at("training_members").get<int>();
  };
  const int all = json_of({"info", path("train.h5")}).at("members");
  EXPECT_EQ(training_members(path("fresh.h5"), {}), all);
  EXPECT_EQ(training_members(path("fresh.h5"), {"--training-members", "8"}), 8);
  json_of({"train", path("run/config.toml"), "-o", path("few"), "--set", "data.members=16"});
  json_of({"rollout", path("few"), "--init", path("test.h5"), "-m", "8"});
  EXPECT_EQ(training_members(path("few"), {}), 16);
}

// All over the time that the shortest has, with as many members as the smallest.
TEST_F(EvaluateCliTest, CompareIsOverTheSameTimeForAll) {
  json_of({"rollout", path("run"), "--init", path("test.h5"), "-m", "32", "--steps", "10", "-o",
           path("short.h5")});
  json_of(
      {"compare", path("train.h5"), path("short.h5"), "--truth", path("test.h5"), "-o", path("c")});
  for (const char* label : {"train", "short"}) {
    const json evaluation = json::parse(read_file(path("c/") + label + ".json"));
    EXPECT_EQ(evaluation.at("moments").at("time").size(), 11u) << label;
  }
  json_of({"rollout", path("run"), "--init", path("test.h5"), "-m", "1", "-o", path("one.h5")});
  const auto r = run_slift({"compare", path("train.h5"), path("one.h5"), "--truth", path("test.h5"),
                            "-o", path("d"), "-q"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("at least 2 members are needed, got 1"), std::string::npos) << r.err;
}

TEST_F(EvaluateCliTest, CompareMakesATableAndAPage) {
  json_of({"rollout", path("run"), "--init", path("test.h5"), "-m", "32"});
  const auto r = run_slift({"compare", path("run"), path("train.h5"), "--truth", path("test.h5"),
                            "-o", path("compare"), "-q"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("sliced W2 of state"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("train ("), r.out.find("run ")) << r.out;
  const std::string page = read_file(path("compare/compare.html"));
  for (const char* label : {"run", "train"}) {
    const json evaluation = json::parse(read_file(path("compare/") + label + ".json"));
    EXPECT_EQ(evaluation.at("members"), 32) << label;
    EXPECT_NE(page.find(label), std::string::npos);
  }
  const json result = json_of(
      {"compare", path("run"), path("train.h5"), "--truth", path("test.h5"), "-o", path("c2")});
  EXPECT_EQ(result.at("runs").size(), 2u);
  EXPECT_EQ(result.at("runs")[1].at("label"), "train");
}

TEST_F(EvaluateCliTest, BranchesAreComparedFromTheirStarts) {
  json_of({"simulate", "duffing", "-m", "64", "-s", "4", "--branches", "16", "-o", path("b.h5")});
  json_of({"rollout", path("run"), "--init", path("b.h5"), "--branches", "8", "-m", "32", "-o",
           path("rb.h5")});
  const json e = json_of({"evaluate", path("rb.h5"), "--truth", path("b.h5")});
  EXPECT_EQ(json_of({"info", path("rb.h5")}).at("branches"), 8);
  EXPECT_EQ(e.at("conditional").at("groups"), 4);
  EXPECT_EQ(e.at("conditional").at("scores")[0].at("metric"), "sliced W2");
}

}  // namespace
}  // namespace slift::testing
