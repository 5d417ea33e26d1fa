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
              {"out", "members", "steps", "state_shape", "parameters"});
  expect_keys(json_of({"import", path("four.h5"), "--dataset", "/states", "-o", path("i.h5")}),
              {"out", "members", "steps", "state_shape"});
  expect_keys(
      json_of({"train", path("small.toml"), "-o", path("json-run"), "--set", "train.iterations=3"}),
      {"run", "model", "iterations", "parameters", "loss", "seconds"});
  expect_keys(json_of({"rollout", path("json-run"), "-m", "64"}),
              {"out", "members", "steps", "seed", "init"});
  const auto evaluation = json_of({"evaluate", path("json-run"), "--truth", path("test.h5")});
  expect_keys(evaluation, {"format", "version", "system", "generated", "truth", "members",
                           "quantity", "sliced_w2", "exact_w2", "moments", "out"});
  expect_keys(evaluation.at("sliced_w2"), {"value", "floor", "ratio", "interval", "over_time"});
  expect_keys(json_of({"report", path("json-run")}), {"out"});
  expect_keys(json_of({"doctor"}),
              {"version", "libtorch", "blas", "gemm_gflops", "threads", "cores", "cuda_built",
               "cuda_usable", "hdf5", "report_charts", "warnings"});
  for (const char* name : {"", "/model.safetensors", "/rollout.h5", "/evaluation.json",
                           "/config.toml", "/metrics.jsonl", "/checkpoints/step-00000003"}) {
    expect_keys(json_of({"info", path("json-run") + name}), {"kind"});
  }
}

TEST_F(OutputTest, HelpShowsAnExample) {
  for (const char* command :
       {"simulate", "import", "info", "train", "rollout", "evaluate", "report", "doctor", "demo"}) {
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
