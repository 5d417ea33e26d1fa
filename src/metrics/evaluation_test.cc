#include "metrics/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/errors.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kSteps = 6;

TrajectoryInfo make_info(std::int64_t members, std::int64_t steps,
                         std::vector<std::int64_t> state_shape) {
  TrajectoryInfo info;
  info.members = members, info.steps = steps, info.state_shape = std::move(state_shape);
  info.dt = 0.5;
  info.system = "walk";
  return info;
}

// Random walks: state t is a sum of t + 1 standard normals. Member i is the same for every count.
std::vector<float> walks(const TrajectoryInfo& info, std::uint64_t seed) {
  std::vector<float> states;
  const auto size = static_cast<std::size_t>(info.state_size());
  for (std::int64_t m = 0; m < info.members; ++m) {
    std::vector<float> one(static_cast<std::size_t>(info.trajectory_size()));
    fill_normal({seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(m), 0}, one);
    for (std::size_t i = size; i < one.size(); ++i) one[i] += one[i - size];
    states.insert(states.end(), one.begin(), one.end());
  }
  return states;
}

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override { Progress::set_enabled(false); }
  void TearDown() override { Progress::set_enabled(true); }

  TrajectoryReader write(const std::string& name, const TrajectoryInfo& info,
                         const std::vector<float>& states) {
    TrajectoryWriter writer(folder_ / name, info);
    writer.write(0, info.members, states);
    writer.commit();
    return TrajectoryReader(folder_ / name);
  }
  TrajectoryReader write_walks(const std::string& name, const TrajectoryInfo& info,
                               std::uint64_t seed) {
    return write(name, info, walks(info, seed));
  }

  // The error of comparing, which must name `culprit`.
  std::string error_of(const TrajectoryReader& generated, const TrajectoryReader& truth,
                       const std::string& culprit) {
    try {
      evaluate(generated, truth, {});
    } catch (const UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find((folder_ / culprit).string()), std::string::npos) << text;
      return text;
    }
    ADD_FAILURE() << "must throw";
    return "";
  }

  TestFolder folder_;
};

TEST_F(EvaluationTest, TruthAgainstTruthHasRatioOne) {
  // The ratio's standard error is about 0.2 here: the steps of a walk go together, which leaves few
  // degrees of freedom. Of twenty 95 % intervals at least 17 must hold 1 (19 are expected).
  EvaluateOptions options;
  options.exact_points = 0, options.distances_only = true;
  double mean = 0;
  int covered = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto truth = write_walks("truth.h5", make_info(800, kSteps, {2}), 2 * seed);
    const auto generated = write_walks("generated.h5", make_info(400, kSteps, {2}), 2 * seed + 1);
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
      const auto truth = write_walks("truth.h5", make_info(200, 3, {2}), seed);
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
  const TrajectoryInfo info = make_info(n, kSteps, {2});
  const auto truth = write_walks("truth.h5", make_info(2 * n, kSteps, {2}), 0);
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
  const TrajectoryInfo info = make_info(50, kSteps, {2});
  std::vector<float> states = walks(info, 0);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto t = static_cast<float>(i / 2 % kSteps);
    states[i] += t * (i % 2 == 0 ? 3.0f : -4.0f);
  }
  const auto truth = write_walks("truth.h5", make_info(100, kSteps, {2}), 0);
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
  const TrajectoryInfo half = make_info(30, kSteps, {2}), whole = make_info(60, kSteps, {2});
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
  const TrajectoryInfo info = make_info(40, 3, {2, 2, 3});
  const auto truth = write_walks("truth.h5", info, 0);
  const auto generated = write_walks("generated.h5", make_info(25, 3, {2, 2, 3}), 1);
  EvaluateOptions options;
  options.max_members = 8;  // the moments use all members nevertheless
  const Evaluation e = evaluate(generated, truth, options);
  const std::vector<float> x = walks(info, 0), y = walks(make_info(25, 3, {2, 2, 3}), 1);
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
  const TrajectoryInfo half = make_info(20, 4, {2, 3, 3});
  const auto truth = write_walks("truth.h5", make_info(40, 4, {2, 3, 3}), 0);
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
  const auto truth = write_walks("truth.h5", make_info(40, 4, {2}), 0);
  const auto same = evaluate(write_walks("same.h5", make_info(20, 4, {2}), 1), truth, {});
  // Member m of the longer file starts with the same numbers: fill_normal draws prefixes.
  const auto longer = evaluate(write_walks("longer.h5", make_info(20, 9, {2}), 1), truth, {});
  EXPECT_EQ(longer.headline().over_time, same.headline().over_time);
  EXPECT_EQ(longer.headline().time, same.headline().time);
  EXPECT_EQ(longer.generated_mean, same.generated_mean);
  EXPECT_EQ(longer.time.size(), 4u);
  const auto shorter = evaluate(write_walks("shorter.h5", make_info(20, 3, {2}), 1), truth, {});
  ASSERT_EQ(shorter.headline().over_time.size(), 2u);
  EXPECT_EQ(shorter.headline().over_time[0], same.headline().over_time[0]);
  EXPECT_EQ(shorter.truth_mean.size(), 3u);
}

TEST_F(EvaluationTest, MisfitsNameTheFile) {
  const auto truth = write_walks("truth.h5", make_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", make_info(20, 4, {2}), 1);
  const auto wide = write_walks("wide.h5", make_info(20, 4, {3}), 1);
  EXPECT_NE(error_of(wide, truth, "wide.h5").find("states 3 do not fit the 2"), std::string::npos);
  const auto field = write_walks("field.h5", make_info(20, 4, {2, 1, 1}), 1);
  EXPECT_NE(error_of(field, truth, "field.h5").find("states 2 x 1 x 1"), std::string::npos);

  TrajectoryInfo other_dt = make_info(20, 4, {2});
  other_dt.dt = 0.25;
  const auto slow = write_walks("slow.h5", other_dt, 1);
  EXPECT_NE(error_of(slow, truth, "slow.h5").find("time step 0.25"), std::string::npos);

  const auto three = write_walks("three.h5", make_info(3, 4, {2}), 0);
  EXPECT_NE(error_of(generated, three, "three.h5").find("at least 4 trajectories"),
            std::string::npos);
  const auto still = write_walks("still.h5", make_info(20, 1, {2}), 1);
  EXPECT_NE(error_of(still, truth, "still.h5").find("at least 2 stored states"), std::string::npos);

  std::vector<float> states = walks(make_info(20, 4, {2}), 1);
  states[3 * 8 + 2 * 2] = std::numeric_limits<float>::quiet_NaN();
  const auto bad = write("bad.h5", make_info(20, 4, {2}), states);
  EXPECT_NE(error_of(bad, truth, "bad.h5").find("trajectory 3, step 2"), std::string::npos);
}

std::set<std::string> keys(const nlohmann::json& object) {
  std::set<std::string> result;
  for (const auto& item : object.items()) result.insert(item.key());
  return result;
}

TEST_F(EvaluationTest, JsonHasTheDocumentedKeys) {
  using Keys = std::set<std::string>;
  const auto truth = write_walks("truth.h5", make_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", make_info(20, 4, {2}), 1);
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
  const auto truth = write_walks("truth.h5", make_info(40, 4, {2}), 0);
  const auto generated = write_walks("generated.h5", make_info(20, 4, {2}), 1);
  EXPECT_EQ(evaluate(generated, truth, {}).to_json(), evaluate(generated, truth, {}).to_json());
}

// Fields that cross at a step of our choice: member m of `steps_of` crosses at its entry, or never.
TEST_F(EvaluationTest, CrossingTimesOfTheWave) {
  const auto write_crossings = [&](const std::string& name, const std::vector<std::int64_t>& at) {
    TrajectoryInfo info =
        make_info(static_cast<std::int64_t>(at.size()), kSteps, std::vector<std::int64_t>{1, 4, 4});
    info.system = "wave";
    std::vector<float> states(static_cast<std::size_t>(info.members * info.trajectory_size()));
    for (std::size_t m = 0; m < at.size(); ++m) {
      if (at[m] < kSteps) states[(m * kSteps + static_cast<std::size_t>(at[m])) * 16 + 3] = 1;
    }
    return write(name, info, states);
  };
  const std::int64_t never = kSteps;
  EvaluateOptions options;
  options.cuts = 1, options.bootstrap = 0;
  const Evaluation e = evaluate(write_crossings("g.h5", {1, 3, never, 2}),
                                write_crossings("t.h5", {1, 2, 3, 4, 2, 2, never, 5}), options);
  const Score* crossing = e.find("W2 of crossing times", "largest on the border");
  ASSERT_NE(crossing, nullptr);
  // Times are steps / 5. Sorted: 1 2 3 never (5) against 1 2 3 4, and 2 2 5 never (5) against
  // those.
  EXPECT_NEAR(crossing->value, std::sqrt(1.0 / 4) / 5, 1e-7);
  EXPECT_NEAR(crossing->floor, std::sqrt((1.0 + 0 + 4 + 1) / 4) / 5, 1e-7);
  EXPECT_DOUBLE_EQ(crossing->details["never_generated"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(crossing->details["never_truth"].get<double>(), 0.125);
  EXPECT_TRUE(crossing->time.empty());
}

// WIM and WCT written down once more, plainly, for the first cut.
struct PlainDistances {
  double wim = 0, wct = 0;
};

PlainDistances plain_distances(const std::vector<float>& a, const std::vector<float>& b,
                               const TrajectoryInfo& info, double threshold) {
  const auto steps = static_cast<std::size_t>(info.steps);
  const auto size = static_cast<std::size_t>(info.state_size());
  const auto side = static_cast<std::size_t>(info.state_shape[1]);
  const auto mean_magnitude = [&](const std::vector<float>& x, std::size_t m, std::size_t t) {
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      sum += std::abs(static_cast<double>(x[(m * steps + t) * size + i]));
    }
    return static_cast<float>(sum / static_cast<double>(size));  // as it is recorded
  };
  const auto crossing = [&](const std::vector<float>& x, std::size_t m) {
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t row = i / side, column = i % side;
        const bool border = row == 0 || column == 0 || row == side - 1 || column == side - 1;
        if (border && static_cast<double>(x[(m * steps + t) * size + i]) > threshold) {
          return static_cast<float>(static_cast<double>(t) / static_cast<double>(steps - 1));
        }
      }
    }
    return 1.0f;
  };
  const auto members = a.size() / (steps * size);
  const auto w2 = [&](auto value) {
    std::vector<float> x, y;
    for (std::size_t m = 0; m < members; ++m) x.push_back(value(a, m)), y.push_back(value(b, m));
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    double sum = 0;
    for (std::size_t m = 0; m < members; ++m) {
      sum += (static_cast<double>(x[m]) - y[m]) * (static_cast<double>(x[m]) - y[m]);
    }
    return std::sqrt(sum / static_cast<double>(members));
  };
  PlainDistances d;
  for (std::size_t t = 1; t < steps; ++t) {
    d.wim += w2([&](const auto& x, std::size_t m) { return mean_magnitude(x, m, t); }) /
             static_cast<double>(steps - 1);
  }
  d.wct = w2(crossing);
  return d;
}

TEST_F(EvaluationTest, WimAndWctAgreeWithAPlainImplementation) {
  TrajectoryInfo half = make_info(40, kSteps, {1, 5, 5}), whole = make_info(80, kSteps, {1, 5, 5});
  half.system = whole.system = "wave";
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    // Small fields, so that some members never cross, and some at the start.
    std::vector<float> truth = walks(whole, 2 * seed), generated = walks(half, 2 * seed + 1);
    for (float& x : truth) x *= 0.02f * static_cast<float>(seed);
    for (float& x : generated) x *= 0.015f * static_cast<float>(seed);
    EvaluateOptions options;
    options.cuts = 1, options.bootstrap = 0;
    const Evaluation e =
        evaluate(write("g.h5", half, generated), write("t.h5", whole, truth), options);
    const auto middle = truth.begin() + std::ssize(truth) / 2;
    const std::vector<float> first(truth.begin(), middle), second(middle, truth.end());
    const PlainDistances value = plain_distances(generated, first, half, 0.05);
    const PlainDistances floor = plain_distances(second, first, half, 0.05);
    EXPECT_NEAR(e.headline().value, value.wim, 1e-12);
    EXPECT_NEAR(e.headline().floor, floor.wim, 1e-12);
    EXPECT_NEAR(e.find("W2 of crossing times")->value, value.wct, 1e-12);
    EXPECT_NEAR(e.find("W2 of crossing times")->floor, floor.wct, 1e-12);
  }
}

// The ratio of every score of two halves of one truth is 1 within its interval, nearly always.
TEST_F(EvaluationTest, FloorsHoldForEveryScore) {
  int covered = 0, counted = 0;
  EvaluateOptions options;
  options.exact_points = 64, options.exact_times = 2, options.bootstrap = 30;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const auto& shape : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{1, 4, 4}}) {
      const auto truth = write_walks("truth.h5", make_info(240, kSteps, shape), 2 * seed);
      const auto generated = write_walks("g.h5", make_info(120, kSteps, shape), 2 * seed + 1);
      for (const Score& score : evaluate(generated, truth, options).scores) {
        ASSERT_TRUE(score.ratio_interval) << score.metric;
        ++counted;
        covered += score.ratio_interval->low < 1 && 1 < score.ratio_interval->high;
      }
    }
  }
  EXPECT_EQ(counted, 6 * (5 + 8));
  EXPECT_GE(covered, counted * 85 / 100);
}

TEST_F(EvaluationTest, CollapseShowsInTheSkillScores) {
  constexpr std::int64_t n = 1000;
  const TrajectoryInfo info = make_info(n, kSteps, {2});
  const auto truth = write_walks("truth.h5", make_info(2 * n, kSteps, {2}), 0);
  std::vector<float> states = walks(info, 1);
  for (float& x : states) x *= 0.02f;  // a hair's breadth around the mean
  EvaluateOptions options;
  options.exact_points = 0;
  const Evaluation e = evaluate(write("generated.h5", info, states), truth, options);
  EXPECT_NEAR(e.find("spread-skill ratio")->value, 0.02, 0.002);
  EXPECT_NEAR(e.find("spread-skill ratio")->floor, 1, 0.1);
  EXPECT_GT(e.headline().ratio(), 10);
  EXPECT_GT(e.find("unevenness of ranks")->ratio(), 10);
  // The score of a point forecast of N(0, s^2) is s sqrt(2 / pi), of the distribution s / sqrt(pi).
  EXPECT_NEAR(e.find("fair CRPS")->ratio(), std::sqrt(2.0), 0.1);
  const auto counts = e.find("unevenness of ranks")->details["counts"];
  EXPECT_GT(counts[0].get<int>(), 20 * counts[5].get<int>());
}

TEST_F(EvaluationTest, SpectraSeeWhatMeansDoNot) {
  const TrajectoryInfo half = make_info(50, 3, {1, 8, 8});
  const auto truth = write_walks("truth.h5", make_info(100, 3, {1, 8, 8}), 0);
  std::vector<float> states = walks(half, 1);
  for (std::size_t m = 0; m < 150; ++m) {  // neighbours averaged: the short waves are gone
    std::vector<float> field(states.begin() + static_cast<std::ptrdiff_t>(64 * m),
                             states.begin() + static_cast<std::ptrdiff_t>(64 * (m + 1)));
    for (std::size_t i = 0; i < 64; ++i) {
      states[64 * m + i] =
          (field[i] + field[(i + 1) % 8 + i / 8 * 8] + field[(i + 8) % 64]) / 3 * 1.7f;
    }
  }
  const Evaluation e = evaluate(write("g.h5", half, states), truth, {});
  EXPECT_GT(e.find("log10 spectrum")->ratio(), 4);
  ASSERT_EQ(e.spectra.size(), 1u);
  EXPECT_EQ(e.spectra[0].time, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(e.spectra[0].truth[0].size(), 5u);
  EXPECT_LT(e.spectra[0].generated[1].back(), 0.7 * e.spectra[0].truth[1].back());
}

TEST_F(EvaluationTest, QuantilesAreOfAllMembersKept) {
  const auto truth = write_walks("truth.h5", make_info(2000, 3, {1}), 0);
  const auto generated = write_walks("generated.h5", make_info(1000, 3, {1}), 1);
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0;
  const Evaluation e = evaluate(generated, truth, options);
  ASSERT_EQ(e.quantiles.size(), 1u);
  const double level95 = 1.6449 * std::sqrt(3.0);  // of a sum of three normals
  EXPECT_NEAR(e.quantiles[0].truth[2][5], level95, 0.25);
  EXPECT_NEAR(e.quantiles[0].generated[2][1], -level95, 0.35);
  EXPECT_NEAR(e.quantiles[0].generated[2][3], 0, 0.25);
}

// Branches: groups that start far apart and stay there. A model that mixes the groups up is perfect
// as a whole and wrong from each start.
TEST_F(EvaluationTest, BranchesAreComparedByTheirStart) {
  const auto write_branches = [&](const std::string& name, std::int64_t groups,
                                  std::int64_t branches, std::uint64_t seed, std::int64_t turn) {
    TrajectoryInfo info = make_info(groups * branches, kSteps, {2});
    info.branches = branches;
    std::vector<float> states = walks(info, seed);
    for (std::int64_t m = 0; m < info.members; ++m) {
      for (std::int64_t t = 0; t < kSteps; ++t) {
        const std::int64_t group = m / branches, place = t == 0 ? group : (group + turn) % groups;
        float* x = states.data() + (m * kSteps + t) * 2;
        if (t == 0) x[0] = x[1] = 0;
        x[0] += 20.0f * static_cast<float>(place);
      }
    }
    return write(name, info, states);
  };
  EvaluateOptions options;
  options.exact_points = 0, options.cuts = 4, options.bootstrap = 10;
  const auto truth = write_branches("t.h5", 8, 64, 0, 0);
  const Evaluation good = evaluate(write_branches("g.h5", 8, 32, 1, 0), truth, options);
  EXPECT_EQ(good.branch_groups, 8);
  EXPECT_EQ(good.conditional.front().metric, "sliced W2");
  EXPECT_NEAR(good.conditional.front().ratio(), 1, 0.25);
  const Evaluation mixed = evaluate(write_branches("g.h5", 8, 32, 1, 1), truth, options);
  EXPECT_NEAR(mixed.headline().ratio(), 1, 0.5);
  EXPECT_GT(mixed.conditional.front().ratio(), 10);

  // One true branch from each state verifies: scores without floors.
  const Evaluation verified =
      evaluate(write_branches("g.h5", 8, 32, 1, 0), write_branches("t.h5", 8, 1, 2, 0), options);
  ASSERT_FALSE(verified.conditional.empty());
  EXPECT_EQ(verified.conditional.front().metric, "fair CRPS");
  EXPECT_TRUE(std::isnan(verified.conditional.front().floor));
  EXPECT_EQ(verified.to_json()["conditional"]["scores"][0]["ratio"], nullptr);

  const auto elsewhere = write_walks(
      "e.h5",
      [] {
        TrajectoryInfo info = make_info(256, kSteps, {2});
        info.branches = 32;
        return info;
      }(),
      3);
  EXPECT_EQ(evaluate(elsewhere, truth, options).branch_groups, 0) << "other starts";
}

// Records evaluate as the states they were made from.
TEST_F(EvaluationTest, RecordsGiveTheSameScoresAsStates) {
  for (const auto& shape : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{1, 6, 8}}) {
    TrajectoryInfo info = make_info(30, kSteps, shape);
    const std::vector<float> states = walks(info, 1);
    const auto generated = write("g.h5", info, states);
    const auto truth = write_walks("t.h5", make_info(60, kSteps, shape), 0);
    Quantity corner;
    corner.name = "first", corner.reduce = "max", corner.field = "x1";
    corner.crossing = "above", corner.threshold = 1;
    EvaluateOptions options;
    options.quantities = {corner};
    const RecordPlan plan = plan_record(info, options.quantities);
    const StateMap map = record_map(plan, info);
    TrajectoryInfo recorded = info;
    recorded.state_shape = map.shape, recorded.fields = map.fields, recorded.record = map.record;
    std::vector<float> records(static_cast<std::size_t>(30 * kSteps * plan.width()));
    const auto size = static_cast<std::size_t>(info.state_size());
    const auto width = static_cast<std::size_t>(plan.width());
    for (std::size_t i = 0; i < 30 * kSteps; ++i) {
      map.apply(std::span(states).subspan(i * size, size),
                std::span(records).subspan(i * width, width));
    }
    const auto record_file = write("r.h5", recorded, records);
    const auto from_states = evaluate(generated, truth, options).to_json();
    auto from_records = evaluate(record_file, truth, options).to_json();
    from_records["generated"] = from_states["generated"];
    EXPECT_EQ(from_records, from_states);
    // The records carry their quantities; others cannot be asked for afterwards.
    EXPECT_EQ(evaluate(record_file, truth, {}).to_json()["scores"], from_states["scores"]);
    options.quantities[0].threshold = 2;
    EXPECT_NE(slift::error_of([&] { evaluate(record_file, truth, options); }).find("not recorded"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace slift
