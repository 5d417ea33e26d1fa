// The model that comes with the program, which `slift demo` shows.
#include <nlohmann/json.hpp>

#include "fixture.h"

namespace slift::testing {
namespace {

class ShippedModelTest : public CliTest {};

// Takes few members, so the bounds are those of a broken model and not of models/README.md.
TEST_F(ShippedModelTest, RollsOutWavesLikeTrueOnes) {
  ASSERT_EQ(run_slift({"simulate", "wave", "-m", "128", "-s", "9", "-q", "-o", path("waves.h5"),
                       "--set", "grid=64", "--set", "stored_grid=32", "--set", "stored=17", "--set",
                       "inner_dt=0.016"})
                .exit_code,
            0);
  const std::string model = SLIFT_SOURCE_DIR "/models/wave-tiny.safetensors";
  const auto rollout = run_slift({"rollout", model, "--init", path("waves.h5"), "-m", "64", "-q",
                                  "-o", path("waves-rollout.h5")});
  ASSERT_EQ(rollout.exit_code, 0) << rollout.err;
  const auto judged = run_slift({"evaluate", path("waves-rollout.h5"), "--truth", path("waves.h5"),
                                 "--json", "-q", "-o", path("waves.json")});
  ASSERT_EQ(judged.exit_code, 0) << judged.err;
  int found = 0;
  const auto told = nlohmann::json::parse(judged.out);
  for (const auto& score : told.at("scores")) {
    const std::string metric = score.at("metric"), name = score.at("name");
    if ((metric == "W2" && name == "mean |x|") || metric == "W2 of crossing times") {
      EXPECT_LT(score.at("ratio").get<double>(), 3) << metric;
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace slift::testing
