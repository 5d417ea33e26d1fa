// Does training say where the randomness is frozen, so that labels should persist?
#include <cmath>
#include <nlohmann/json.hpp>

#include "fixture.h"

namespace slift::testing {
namespace {

struct FrozenCase {
  std::string system;
  std::vector<std::string> simulate, train;
  bool frozen;
};

void PrintTo(const FrozenCase& of, std::ostream* out) { *out << of.system; }

class FrozenTest : public CliTest, public ::testing::WithParamInterface<FrozenCase> {};

// Duffing has noise of its own at each step; the media of waves and floods stay what they are.
TEST_P(FrozenTest, TrainingAdvisesLabelsThatPersistWhereTheyHelp) {
  const FrozenCase& of = GetParam();
  const std::string data = path(of.system + "-frozen.h5");
  std::vector<std::string> simulate = {"simulate", of.system, "-o", data, "-q"};
  simulate.insert(simulate.end(), of.simulate.begin(), of.simulate.end());
  ASSERT_EQ(run_slift(simulate).exit_code, 0);
  const std::string run = path(of.system + "-run");
  std::vector<std::string> train = {"train", "--data", data, "-o", run, "-q"};
  train.insert(train.end(), of.train.begin(), of.train.end());
  const auto result = run_slift(train);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("the randomness looks frozen") != std::string::npos, of.frozen)
      << result.out;
  std::ifstream log(run + "/metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(log, line);) last = line;
  const double correlation =
      nlohmann::json::parse(last).at("gauge").at("residual_correlation").get<double>();
  if (of.frozen) {
    EXPECT_GT(correlation, 0.2);
  } else {
    EXPECT_LT(std::abs(correlation), 0.05);
  }
}

const std::string kConfigs = SLIFT_SOURCE_DIR "/configs/";
const std::vector<std::string> kField = {kConfigs + "wave-tiny.toml",
                                         "--set",
                                         "lifting.persistent=0",
                                         "--set",
                                         "net.window=3",
                                         "--set",
                                         "score.from=1",
                                         "--set",
                                         "train.loss=l2",
                                         "--set",
                                         "validation.every=0",
                                         "--set",
                                         "train.iterations=300"};

INSTANTIATE_TEST_SUITE_P(
    Systems, FrozenTest,
    ::testing::Values(FrozenCase{"duffing",
                                 {"-m", "256"},
                                 {kConfigs + "duffing-small.toml", "--set", "train.iterations=600"},
                                 false},
                      FrozenCase{"wave",
                                 {"-m", "64", "--set", "grid=32", "--set", "stored_grid=16",
                                  "--set", "inner_dt=0.032", "--set", "stored=17"},
                                 kField,
                                 true},
                      FrozenCase{"flow",
                                 {"-m", "64", "--set", "grid=16", "--set", "crop=0", "--set",
                                  "length=5", "--set", "store_every=6", "--set", "stored=17"},
                                 kField,
                                 true}),
    [](const auto& test) { return test.param.system; });

}  // namespace
}  // namespace slift::testing
