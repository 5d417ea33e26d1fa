// Training a UNet on fields, as a user does: it interpolates what it can, says when it collapses,
// and survives being killed.
#include <nlohmann/json.hpp>
#include <random>

#include "core/atomic_file.h"
#include "data/trajectories.h"
#include "fixture.h"

namespace slift::testing {
namespace {

class FieldTrainingTest : public CliTest {
 protected:
  static constexpr const char* kConfig = SLIFT_SOURCE_DIR "/configs/wave-tiny.toml";

  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    const auto made =
        run_slift({"simulate", "wave", "-o", path("wave.h5"), "-m", "64", "-q", "--set", "grid=32",
                   "--set", "stored_grid=16", "--set", "inner_dt=0.032", "--set", "stored=17"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  static std::vector<std::string> train(const std::string& data, const std::string& run,
                                        std::vector<std::string> settings) {
    std::vector<std::string> arguments = {
        "train", kConfig, "--data", data, "-o", run, "--json", "-q", "--set", "validation.every=0"};
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    return arguments;
  }
};

TEST_F(FieldTrainingTest, InterpolatesThirtyTwoTransitions) {
  const auto result = run_slift(
      train(path("wave.h5"), path("fitted"),
            {"data.members=2", "train.iterations=400", "optim.lr=3e-3", "optim.weight_decay=0",
             "optim.warmup=20", "score.from=1", "lifting.persistent=0", "train.loss=l2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(result.seconds, 60);
  const auto told = nlohmann::json::parse(result.out);
  EXPECT_EQ(told.at("gauge"), "interpolating") << result.out;
  EXPECT_LT(told.at("fitted_share").get<double>(), 1e-3) << result.out;
}

TEST_F(FieldTrainingTest, ShuffledPairsWithoutLabelsCollapseToTheMean) {
  // Every transition on its own, each state paired with the next of a random other.
  const TrajectoryReader reader(path("wave.h5"));
  const TrajectoryInfo& from = reader.info();
  std::vector<float> states(static_cast<std::size_t>(from.members * from.trajectory_size()));
  reader.read(0, from.members, states);
  const auto size = static_cast<std::size_t>(from.state_size());
  const auto steps = static_cast<std::size_t>(from.steps);
  const auto pairs = static_cast<std::size_t>(from.transitions());
  std::mt19937 random(1);
  std::vector<float> shuffled;
  for (std::size_t k = 0; k < pairs; ++k) {
    const std::size_t other = random() % pairs;
    const auto state = [&](std::size_t transition, std::size_t offset) {
      const std::size_t at = transition / (steps - 1) * steps + transition % (steps - 1) + offset;
      shuffled.insert(shuffled.end(), states.begin() + static_cast<std::ptrdiff_t>(at * size),
                      states.begin() + static_cast<std::ptrdiff_t>((at + 1) * size));
    };
    state(k, 0);
    state(other, 1);
  }
  TrajectoryInfo info = from;
  info.members = static_cast<std::int64_t>(pairs), info.steps = 2;
  TrajectoryWriter writer(path("shuffled.h5"), info);
  writer.write(0, info.members, shuffled);
  writer.commit();

  const auto result = run_slift(train(
      path("shuffled.h5"), path("collapsed"),
      {"lifting.dimension=0", "lifting.persistent=0", "score.from=1", "train.iterations=100"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto told = nlohmann::json::parse(result.out);
  EXPECT_EQ(told.at("gauge"), "mean collapse") << result.out;
  EXPECT_EQ(told.at("spread_ratio"), 0.0);
}

TEST_F(FieldTrainingTest, KilledAndResumedGivesTheSameModel) {
  const std::vector<std::string> settings = {"train.iterations=120", "train.checkpoint_every=10",
                                             "train.batch=16", "train.gauge_every=50",
                                             "score.members=2"};
  const auto whole = run_slift(train(path("wave.h5"), path("whole-field"), settings));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  auto resume = train(path("wave.h5"), path("parts-field"), settings);
  resume.push_back("--resume");
  for (const char* step : {"step-00000030", "step-00000080"}) {
    ProcessOptions options;
    options.kill_when = [&] {
      return std::filesystem::exists(path("parts-field/checkpoints/") + step);
    };
    EXPECT_EQ(run_slift(resume, options).exit_code, -1) << "the run ended before it was killed";
  }
  ASSERT_EQ(run_slift(resume).exit_code, 0);
  EXPECT_TRUE(read_file(path("parts-field/model.safetensors")) ==
              read_file(path("whole-field/model.safetensors")));
}

TEST_F(FieldTrainingTest, ATimeBudgetEndsTheRunAndValidationShowsItsQuality) {
  auto arguments = train(path("wave.h5"), path("timed"),
                         {"train.batch=16", "validation.path=" + path("wave.h5"),
                          "validation.members=8", "train.log_every=5"});
  arguments.insert(arguments.end(), {"--set", "validation.every=1000000", "--minutes", "0.1"});
  const auto result = run_slift(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto told = nlohmann::json::parse(result.out);
  EXPECT_GE(told.at("seconds").get<double>(), 6);
  EXPECT_LT(told.at("seconds").get<double>(), 30);
  std::ifstream log(path("timed/metrics.jsonl"));
  nlohmann::json last;
  double first_rate = 0;
  for (std::string line; std::getline(log, line);) {
    last = nlohmann::json::parse(line);
    if (first_rate == 0) first_rate = last.at("lr").get<double>();
  }
  EXPECT_EQ(last.at("step"), told.at("iterations"));
  EXPECT_LT(last.at("lr").get<double>(), 1e-6) << "the schedule is fitted to the time";
  EXPECT_GT(first_rate, 1e-6) << "and does not start at its end";
  for (const char* score : {"w2", "w2_ratio", "wct", "wct_ratio"}) {
    EXPECT_GE(last.at("validation").at(score).get<double>(), 0) << score;
  }
  EXPECT_TRUE(last.at("gauge").contains("verdict"));
}

}  // namespace
}  // namespace slift::testing
