#include "metrics/evaluation.h"

#include <cmath>
#include <limits>
#include <set>

#include "metrics/evaluation_testing.h"

namespace slift {
namespace {

TEST_F(EvaluationTest, TruthAgainstTruthHasRatioOne) {
  // The ratio's standard error is about 0.2 here: the steps of a walk go together, which leaves few
  // degrees of freedom. Of twenty 95 % intervals at least 17 must hold 1 (19 are expected).
  EvaluateOptions options;
  options.exact_points = 0, options.distances_only = true;
  double mean = 0;
  int covered = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto truth = write_walks("truth.h5", walk_info(800, kSteps, {2}), 2 * seed);
    const auto generated = write_walks("generated.h5", walk_info(400, kSteps, {2}), 2 * seed + 1);
    const Evaluation e = evaluate(generated, truth, options);
    EXPECT_EQ(e.members, 400);
    const double ratio = e.headline().ratio();
    EXPECT_GT(ratio, 0.4);
    EXPECT_LT(ratio, 2.5);
    mean += ratio / 20;
    ASSERT_TRUE(e.headline().ratio_interval);
    EXPECT_LT(e.headline().ratio_interval->low, ratio);
    EXPECT_GT(e.headline().ratio_interval->high, ratio);
    EXPECT_LT(e.headline().interval->low, e.headline().value);
    EXPECT_GT(e.headline().interval->high, e.headline().value);
    EXPECT_LT(e.headline().floor_interval->low, e.headline().floor);
    EXPECT_GT(e.headline().floor_interval->high, e.headline().floor);
    covered += e.headline().ratio_interval->low < 1 && 1 < e.headline().ratio_interval->high;
  }
  EXPECT_NEAR(mean, 1, 4 * 0.2 / std::sqrt(20.0));
  EXPECT_GE(covered, 17);
}

TEST_F(EvaluationTest, SeveralCutsGiveASteadierFloor) {
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0, options.distances_only = true;
  const auto relative_deviation = [&](std::int64_t cuts) {
    options.cuts = cuts;
    double sum = 0, squares = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      const auto truth = write_walks("truth.h5", walk_info(200, 3, {2}), seed);
      const double floor = evaluate(truth, truth, options).headline().floor;
      sum += floor, squares += floor * floor;
    }
    const double mean = sum / 30;
    return std::sqrt(squares / 30 - mean * mean) / mean;
  };
  EXPECT_LT(relative_deviation(16), 0.6 * relative_deviation(1));
}

TEST_F(EvaluationTest, CollapsedEnsembleIsFarAboveTheFloor) {
  constexpr std::int64_t n = 1500;
  const TrajectoryInfo info = walk_info(n, kSteps, {2});
  const auto truth = write_walks("truth.h5", walk_info(2 * n, kSteps, {2}), 0);
  const std::vector<float> states = walks(info, 1);
  const auto size = static_cast<std::size_t>(info.trajectory_size());
  std::vector<float> mean(size, 0), collapsed;
  for (std::size_t i = 0; i < states.size(); ++i) mean[i % size] += states[i] / n;
  for (int m = 0; m < n; ++m) collapsed.insert(collapsed.end(), mean.begin(), mean.end());
  EvaluateOptions options;
  options.exact_points = 64, options.exact_times = 2;
  const Evaluation e = evaluate(write("generated.h5", info, collapsed), truth, options);
  EXPECT_GT(e.headline().ratio(), 10);
  EXPECT_GT(e.headline().ratio_interval->low, 5);
  EXPECT_GT(e.find("exact W2")->ratio(), 2);
  for (std::size_t t = 0; t < kSteps; ++t) {
    // Standard deviations of normals are known to 1/sqrt(2 count), relative.
    const double deviation = std::sqrt(static_cast<double>(t + 1));
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_NEAR(e.generated_std[t][c], 0, 1e-4);
      EXPECT_NEAR(e.truth_std[t][c], deviation, 4 * deviation / std::sqrt(4.0 * n));
    }
    // From a normal to its mean it is as far as its standard deviation, here of 2 n numbers; the
    // error of the two means enters squared.
    if (t > 0) {
      EXPECT_NEAR(e.headline().over_time[t - 1], deviation, 4 * deviation / std::sqrt(4.0 * n));
    }
  }
}

TEST_F(EvaluationTest, ShiftIsMeasuredExactly) {
  // The ensemble is the half of the truth it is compared with, shifted at step t by t (3, -4).
  const TrajectoryInfo info = walk_info(50, kSteps, {2});
  std::vector<float> states = walks(info, 0);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto t = static_cast<float>(i / 2 % kSteps);
    states[i] += t * (i % 2 == 0 ? 3.0f : -4.0f);
  }
  const auto truth = write_walks("truth.h5", walk_info(100, kSteps, {2}), 0);
  EvaluateOptions options;
  options.exact_times = 2;
  options.cuts = 1;
  const Evaluation e = evaluate(write("generated.h5", info, states), truth, options);
  EXPECT_EQ(e.members, 50);
  EXPECT_EQ(e.generated_members, 50);
  EXPECT_EQ(e.truth_members, 100);
  EXPECT_EQ(e.headline().name, "state");
  EXPECT_EQ(e.system, "walk");
  EXPECT_EQ(e.fields, (std::vector<std::string>{"x1", "x2"}));
  // Step 0 is given and takes no part: the mean shift is 5 (1 + 2 + 3 + 4 + 5) / 5.
  ASSERT_EQ(e.headline().over_time.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(e.headline().time[i], static_cast<double>(i + 1) / 5, 1e-12);
    EXPECT_NEAR(e.headline().over_time[i], 5 * static_cast<double>(i + 1) / std::sqrt(2.0), 1e-4);
  }
  EXPECT_NEAR(e.headline().value, 15 / std::sqrt(2.0), 1e-4);
  // Of the steps 1 .. 5, two: 2 and the last.
  EXPECT_EQ(e.find("exact W2")->details["points"], 50);
  EXPECT_EQ(e.find("exact W2")->time, (std::vector<double>{0.4, 1}));
  EXPECT_NEAR(e.find("exact W2")->over_time[0], 10, 1e-4);
  EXPECT_NEAR(e.find("exact W2")->over_time[1], 25, 1e-4);
  EXPECT_NEAR(e.find("exact W2")->value, 17.5, 1e-4);
  EXPECT_GT(e.find("exact W2")->floor, e.headline().floor);
  ASSERT_EQ(e.time.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(e.time.front(), 0);
  EXPECT_EQ(e.time.back(), 1);
}

TEST_F(EvaluationTest, FloorIsTheDistanceOfTheHalves) {
  // The second half of the truth is the first, shifted by 2 in x1 at all steps.
  const TrajectoryInfo half = walk_info(30, kSteps, {2}), whole = walk_info(60, kSteps, {2});
  std::vector<float> states = walks(half, 0), shifted = states;
  for (std::size_t i = 0; i < shifted.size(); i += 2) shifted[i] += 2;
  states.insert(states.end(), shifted.begin(), shifted.end());
  const auto truth = write("truth.h5", whole, states);
  EvaluateOptions options;
  options.max_members = 30;
  options.cuts = 1;
  const Evaluation e = evaluate(write_walks("generated.h5", half, 0), truth, options);
  EXPECT_NEAR(e.headline().value, 0, 1e-9);
  EXPECT_NEAR(e.headline().floor, std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(e.find("exact W2")->floor, 2, 1e-5);

  options.max_members = 10;  // then the halves are members 0 .. 9 and 10 .. 19
  EXPECT_EQ(evaluate(write_walks("generated.h5", half, 0), truth, options).members, 10);
}

TEST_F(EvaluationTest, MomentsAgreeWithPlainFormulas) {
  const TrajectoryInfo info = walk_info(40, 3, {2, 2, 3});
  const auto truth = write_walks("truth.h5", info, 0);
  const auto generated = write_walks("generated.h5", walk_info(25, 3, {2, 2, 3}), 1);
  EvaluateOptions options;
  options.max_members = 8;  // the moments use all members nevertheless
  const Evaluation e = evaluate(generated, truth, options);
  const std::vector<float> x = walks(info, 0), y = walks(walk_info(25, 3, {2, 2, 3}), 1);
  const auto moments = [](const std::vector<float>& states, std::size_t t, std::size_t c) {
    double total = 0, squares = 0, n = 0;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (i / 12 % 3 != t || i % 12 / 6 != c) continue;
      const double v = states[i];
      total += v, squares += v * v, n += 1;
    }
    return std::pair(total / n, std::sqrt(squares / n - total / n * total / n));
  };
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t c = 0; c < 2; ++c) {
      // Each member's own moments are recorded in float32.
      EXPECT_NEAR(e.truth_mean[t][c], moments(x, t, c).first, 1e-7);
      EXPECT_NEAR(e.truth_std[t][c], moments(x, t, c).second, 1e-7);
      EXPECT_NEAR(e.generated_mean[t][c], moments(y, t, c).first, 1e-7);
      EXPECT_NEAR(e.generated_std[t][c], moments(y, t, c).second, 1e-7);
    }
  }
}

TEST_F(EvaluationTest, FieldsAreComparedByMeanMagnitude) {
  const TrajectoryInfo half = walk_info(20, 4, {2, 3, 3});
  const auto truth = write_walks("truth.h5", walk_info(40, 4, {2, 3, 3}), 0);
  std::vector<float> states = walks(half, 0);
  for (float& x : states) x = -x;
  EvaluateOptions options;
  options.cuts = 1;
  Evaluation e = evaluate(write("generated.h5", half, states), truth, options);
  EXPECT_EQ(e.headline().name, "mean |x|");
  EXPECT_NEAR(e.headline().value, 0, 1e-6) << "the sign must not matter";
  EXPECT_GT(e.headline().floor, 0.01);
  for (float& x : states) x += x < 0 ? -0.75f : 0.75f;  // mean |x| grows by 0.75
  e = evaluate(write("generated.h5", half, states), truth, options);
  for (const double value : e.headline().over_time) EXPECT_NEAR(value, 0.75, 1e-5);
}

TEST_F(EvaluationTest, DifferentLengthsCompareTheFirstSteps) {
  const auto truth = write_walks("truth.h5", walk_info(40, 4, {2}), 0);
  const auto same = evaluate(write_walks("same.h5", walk_info(20, 4, {2}), 1), truth, {});
  // Member m of the longer file starts with the same numbers: fill_normal draws prefixes.
  const auto longer = evaluate(write_walks("longer.h5", walk_info(20, 9, {2}), 1), truth, {});
  EXPECT_EQ(longer.headline().over_time, same.headline().over_time);
  EXPECT_EQ(longer.headline().time, same.headline().time);
  EXPECT_EQ(longer.generated_mean, same.generated_mean);
  EXPECT_EQ(longer.time.size(), 4u);
  const auto shorter = evaluate(write_walks("shorter.h5", walk_info(20, 3, {2}), 1), truth, {});
  ASSERT_EQ(shorter.headline().over_time.size(), 2u);
  EXPECT_EQ(shorter.headline().over_time[0], same.headline().over_time[0]);
  EXPECT_EQ(shorter.truth_mean.size(), 3u);
}

TEST_F(EvaluationTest, MisfitsNameTheFile) {
  const auto truth = write_walks("truth.h5", walk_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", walk_info(20, 4, {2}), 1);
  const auto wide = write_walks("wide.h5", walk_info(20, 4, {3}), 1);
  EXPECT_NE(error_of(wide, truth, "wide.h5").find("states 3 do not fit the 2"), std::string::npos);
  const auto field = write_walks("field.h5", walk_info(20, 4, {2, 1, 1}), 1);
  EXPECT_NE(error_of(field, truth, "field.h5").find("states 2 x 1 x 1"), std::string::npos);

  TrajectoryInfo other_dt = walk_info(20, 4, {2});
  other_dt.dt = 0.25;
  const auto slow = write_walks("slow.h5", other_dt, 1);
  EXPECT_NE(error_of(slow, truth, "slow.h5").find("time step 0.25"), std::string::npos);

  const auto three = write_walks("three.h5", walk_info(3, 4, {2}), 0);
  EXPECT_NE(error_of(generated, three, "three.h5").find("at least 4 trajectories"),
            std::string::npos);
  const auto still = write_walks("still.h5", walk_info(20, 1, {2}), 1);
  EXPECT_NE(error_of(still, truth, "still.h5").find("at least 2 stored states"), std::string::npos);

  std::vector<float> states = walks(walk_info(20, 4, {2}), 1);
  states[3 * 8 + 2 * 2] = std::numeric_limits<float>::quiet_NaN();
  const auto bad = write("bad.h5", walk_info(20, 4, {2}), states);
  EXPECT_NE(error_of(bad, truth, "bad.h5").find("trajectory 3, step 2"), std::string::npos);
}

std::set<std::string> keys(const nlohmann::json& object) {
  std::set<std::string> result;
  for (const auto& item : object.items()) result.insert(item.key());
  return result;
}

TEST_F(EvaluationTest, JsonHasTheDocumentedKeys) {
  using Keys = std::set<std::string>;
  const auto truth = write_walks("truth.h5", walk_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", walk_info(20, 4, {2}), 1);
  const Evaluation e = evaluate(generated, truth, {});
  const nlohmann::json full = e.to_json();
  EXPECT_EQ(keys(full), (Keys{"format", "version", "system", "generated", "truth", "members",
                              "cuts", "bootstrap", "scores", "moments", "quantiles"}));
  EXPECT_EQ(full["format"], "slift-evaluation");
  EXPECT_EQ(full["version"], 2);
  EXPECT_EQ(full["generated"], (folder_ / "generated.h5").string());
  EXPECT_EQ(full["truth"], (folder_ / "truth.h5").string());
  EXPECT_EQ(full["members"], 20);
  const nlohmann::json& headline = full["scores"][0];
  EXPECT_EQ(keys(headline), (Keys{"name", "metric", "value", "floor", "ratio", "over_time",
                                  "interval", "floor_interval", "ratio_interval"}));
  EXPECT_EQ(keys(headline["over_time"]), (Keys{"time", "value", "floor"}));
  EXPECT_EQ(headline["value"], e.headline().value);
  EXPECT_EQ(headline["floor"], e.headline().floor);
  EXPECT_EQ(headline["ratio"], e.headline().value / e.headline().floor);
  EXPECT_EQ(headline["interval"],
            nlohmann::json::array({e.headline().interval->low, e.headline().interval->high}));
  std::vector<std::string> metrics;
  for (const auto& score : full["scores"]) metrics.push_back(score["metric"]);
  EXPECT_EQ(metrics, (std::vector<std::string>{"sliced W2", "exact W2", "fair CRPS",
                                               "spread-skill ratio", "unevenness of ranks"}));
  EXPECT_EQ(full["scores"][1]["points"], 20);
  EXPECT_EQ(full["scores"][4]["counts"].size(), 20u);
  EXPECT_EQ(keys(full["moments"]),
            (Keys{"time", "fields", "generated_members", "truth_members", "truth", "generated"}));
  for (const char* side : {"truth", "generated"}) {
    EXPECT_EQ(keys(full["moments"][side]), (Keys{"mean", "std"}));
    EXPECT_EQ(full["moments"][side]["mean"].size(), 4u);
    EXPECT_EQ(full["moments"][side]["mean"][0].size(), 2u);
  }
  EXPECT_EQ(full["quantiles"]["tables"].size(), 2u);
  EXPECT_EQ(full["quantiles"]["tables"][1]["name"], "x2");
  EXPECT_EQ(full["quantiles"]["tables"][1]["truth"].size(), 4u);
  EXPECT_EQ(full["quantiles"]["tables"][1]["truth"][0].size(), 7u);

  EvaluateOptions options;
  options.bootstrap = 0, options.exact_points = 0, options.distances_only = true;
  const nlohmann::json bare = evaluate(generated, truth, options).to_json();
  ASSERT_EQ(bare["scores"].size(), 1u);
  EXPECT_EQ(keys(bare["scores"][0]),
            (Keys{"name", "metric", "value", "floor", "ratio", "over_time"}));
  EXPECT_FALSE(bare.contains("quantiles"));
  EXPECT_EQ(bare["scores"][0]["value"], headline["value"]);
}

TEST_F(EvaluationTest, IsTheSameEveryTime) {
  const auto truth = write_walks("truth.h5", walk_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", walk_info(20, 4, {2}), 1);
  EXPECT_EQ(evaluate(generated, truth, {}).to_json(), evaluate(generated, truth, {}).to_json());
}

}  // namespace
}  // namespace slift
