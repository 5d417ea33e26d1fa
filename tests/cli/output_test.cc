// What every command prints: documented JSON keys, help with an example, notes on standard error.
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "fixture.h"

namespace slift::testing {
namespace {

class OutputTest : public CliTest {
 protected:
  static nlohmann::json json_of(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const auto r = run_slift(arguments);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 1) << r.out;
    return nlohmann::json::parse(r.out, nullptr, false);
  }
  static void expect_keys(const nlohmann::json& object, const std::vector<std::string>& keys) {
    ASSERT_TRUE(object.is_object());
    for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key;
  }
};

TEST_F(OutputTest, EveryCommandHasItsKeys) {
  expect_keys(json_of({"simulate", "duffing", "-m", "4", "-o", path("four.h5")}),
              {"out", "members", "steps", "state_shape", "parameters", "previews"});
  expect_keys(json_of({"import", path("four.h5"), "--dataset", "/states", "-o", path("i.h5")}),
              {"out", "members", "steps", "state_shape"});
  expect_keys(
      json_of({"train", path("small.toml"), "-o", path("json-run"), "--set", "train.iterations=3"}),
      {"run", "model", "iterations", "parameters", "loss", "gauge", "fitted_share", "fitted_ratio",
       "spread_ratio", "judged_on", "residual_correlation", "seconds"});
  expect_keys(json_of({"rollout", path("json-run"), "-m", "64"}),
              {"out", "members", "first_member", "steps", "every", "seed", "init"});
  const auto checked = json_of({"rollout", path("json-run"), "-m", "64", "--check"}).at("check");
  EXPECT_EQ(checked, (nlohmann::json{{"steps", 10},
                                     {"recorded", false},
                                     {"labels_equal", true},
                                     {"largest_difference", 0.0}}));
  const auto evaluation = json_of({"evaluate", path("json-run"), "--truth", path("test.h5")});
  expect_keys(evaluation, {"format", "version", "system", "generated", "truth", "members", "cuts",
                           "bootstrap", "scores", "moments", "quantiles", "out"});
  expect_keys(evaluation.at("scores")[0],
              {"name", "metric", "value", "floor", "ratio", "interval", "over_time"});
  expect_keys(json_of({"report", path("json-run")}), {"out"});
  expect_keys(json_of({"compare", path("json-run"), "--truth", path("test.h5"), "-o",
                       path("json-compare")}),
              {"out", "truth", "runs"});
  expect_keys(json_of({"doctor"}),
              {"version", "libtorch", "blas", "gemm_gflops", "threads", "cores", "cuda_built",
               "cuda_usable", "hdf5", "report_charts", "warnings"});
  for (const char* name : {"", "/model.safetensors", "/rollout.h5", "/evaluation.json",
                           "/config.toml", "/metrics.jsonl", "/checkpoints/step-00000003"}) {
    expect_keys(json_of({"info", path("json-run") + name}), {"kind"});
  }
}

TEST_F(OutputTest, PreviewsAreWrittenAndListed) {
  const std::string sheet = path("p.png"), film = path("p.apng"), again = path("again.png");
  const auto simulated = json_of({"simulate", "--preview", sheet, "duffing", "--preview", film,
                                  "-m", "16", "-o", path("p.h5")});
  EXPECT_EQ(simulated.at("previews"), nlohmann::json({sheet, film}));
  const auto info = json_of({"info", "--preview", again, path("p.h5")});
  EXPECT_EQ(info.at("previews"), nlohmann::json({again}));
  EXPECT_FALSE(json_of({"info", path("p.h5")}).contains("previews"));

  const std::string signature("\x89PNG\r\n\x1a\n");
  EXPECT_EQ(read_file(sheet).substr(0, 8), signature);
  EXPECT_EQ(read_file(film).substr(0, 8), signature);
  EXPECT_EQ(read_file(sheet).find("acTL"), std::string::npos);
  EXPECT_NE(read_file(film).find("acTL"), std::string::npos);
  EXPECT_EQ(read_file(again), read_file(sheet));

  const auto text = run_slift(
      {"simulate", "duffing", "-m", "4", "-o", path("q.h5"), "--preview", path("q.png"), "-q"});
  EXPECT_EQ(text.out,
            path("q.h5") + ": 4 trajectories, 4 x 71 x 2\n" + path("q.png") + ": preview\n");
}

TEST_F(OutputTest, OptionsLeaveWhatFollowsThemAlone) {
  const std::string file = path("set.h5");
  const auto simulated = json_of(
      {"simulate", "--set", "noise=2", "duffing", "--set", "damping=0.5", "-m", "4", "-o", file});
  EXPECT_EQ(simulated.at("parameters").at("noise"), 2);
  EXPECT_EQ(simulated.at("parameters").at("damping"), 0.5);
  json_of({"import", "--dataset", "/states", "--fields", "a,b", file, "-o", path("named.h5")});
  EXPECT_EQ(json_of({"info", path("named.h5")}).at("fields"), nlohmann::json({"a", "b"}));
}

TEST_F(OutputTest, WhatCannotBePrintedIsAFailure) {
  ProcessOptions full;
  full.output = "/dev/full";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"info", path("train.h5")},
        {"info", path("train.h5"), "--json"},
        {"train", "--keys"},
        {"--help"}}) {
    const auto r = run_slift(arguments, full);
    EXPECT_EQ(r.exit_code, 1) << arguments.front();
    EXPECT_EQ(r.err, "slift: failed: cannot write to standard output\n");
  }
}

TEST_F(OutputTest, ScoresThatCannotBeStoredArePrinted) {
  const auto r = run_slift({"evaluate", path("train.h5"), "--truth", path("test.h5"), "-o",
                            path("small.toml") + "/e.json", "-q"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("cannot create folder"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("sliced W2 of state"), std::string::npos) << r.out;
}

TEST_F(OutputTest, DivergedSimulationsFail) {
  const auto r = run_slift(
      {"simulate", "duffing", "-m", "4", "--set", "inner_dt=0.2", "-o", path("far.h5"), "-q"});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_NE(r.err.find("smaller time step"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(path("far.h5")));
}

TEST_F(OutputTest, FileNamesNeedNotBeText) {
  const std::string name = path("n\xff.h5");
  EXPECT_EQ(json_of({"simulate", "duffing", "-m", "8", "-o", name}).at("out"),
            path("n\xef\xbf\xbd.h5"));
  const auto shown = run_slift({"info", name, "--preview", name + ".png"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  const auto evaluated =
      run_slift({"evaluate", name, "--truth", path("test.h5"), "-o", path("n.json"), "-q"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const auto rolled =
      run_slift({"rollout", path("run"), "--init", name, "-m", "2", "-o", path("n.h5"), "-q"});
  EXPECT_EQ(rolled.exit_code, 0) << rolled.err;
}

TEST_F(OutputTest, HelpShowsAnExample) {
  for (const char* command : {"simulate", "import", "info", "train", "rollout", "evaluate",
                              "report", "compare", "bench", "doctor", "demo"}) {
    const auto r = run_slift({command, "--help"});
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_NE(r.out.find(std::string("Example:\n  slift ") + command), std::string::npos)
        << command;
  }
}

TEST_F(OutputTest, ConfigPageIsGenerated) {
  EXPECT_EQ(read_file(SLIFT_SOURCE_DIR "/docs/config.md"), run_slift({"train", "--keys"}).out)
      << "docs/config.md is stale: slift train --keys > docs/config.md";
}

}  // namespace
}  // namespace slift::testing
