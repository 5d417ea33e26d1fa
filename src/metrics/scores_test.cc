#include "metrics/scores.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/evaluation_testing.h"

namespace slift {
namespace {

class ScoresTest : public EvaluationTest {
 protected:
  struct Branches {
    std::int64_t members, branches;
    std::uint64_t seed;
    std::int64_t first = 0;
    bool mixed = false;  // after the first state, every start takes the place of another
  };
  // Walks that begin far apart, at a place for each start, and stay there.
  TrajectoryReader write_branches(const std::string& name, const Branches& b) {
    TrajectoryInfo info = walk_info(b.members, kSteps, {2});
    info.branches = b.branches, info.first_member = b.first;
    std::vector<float> states = walks(info, b.seed);
    for (std::int64_t m = 0; m < b.members; ++m) {
      const std::int64_t start = (b.first + m) / b.branches;
      for (std::int64_t t = 0; t < kSteps; ++t) {
        float* x = states.data() + (m * kSteps + t) * 2;
        if (t == 0) x[0] = x[1] = 0;
        x[0] += 20.0f * static_cast<float>(t > 0 && b.mixed ? start ^ 1 : start);
      }
    }
    return write(name, info, states);
  }
};

// Fields that cross at a step of our choice: member m of `steps_of` crosses at its entry, or never.
TEST_F(ScoresTest, CrossingTimesOfTheWave) {
  const auto write_crossings = [&](const std::string& name, const std::vector<std::int64_t>& at) {
    TrajectoryInfo info =
        walk_info(static_cast<std::int64_t>(at.size()), kSteps, std::vector<std::int64_t>{1, 4, 4});
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

TEST_F(ScoresTest, WimAndWctAgreeWithAPlainImplementation) {
  TrajectoryInfo half = walk_info(40, kSteps, {1, 5, 5}), whole = walk_info(80, kSteps, {1, 5, 5});
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
TEST_F(ScoresTest, FloorsHoldForEveryScore) {
  int covered = 0, counted = 0;
  EvaluateOptions options;
  options.exact_points = 64, options.exact_times = 2, options.bootstrap = 30;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const auto& shape : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{1, 4, 4}}) {
      const auto truth = write_walks("truth.h5", walk_info(240, kSteps, shape), 2 * seed);
      const auto generated = write_walks("g.h5", walk_info(120, kSteps, shape), 2 * seed + 1);
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

TEST_F(ScoresTest, CollapseShowsInTheSkillScores) {
  constexpr std::int64_t n = 1000;
  const TrajectoryInfo info = walk_info(n, kSteps, {2});
  const auto truth = write_walks("truth.h5", walk_info(2 * n, kSteps, {2}), 0);
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

TEST_F(ScoresTest, ComponentsCountAlikeInTheSpreadWhateverTheirScale) {
  // x1 has collapsed, x2, a thousand times as large, is right: half of the scaled variance is left.
  const auto scaled = [&](const std::string& name, std::int64_t members, std::uint64_t seed,
                          float first) {
    const TrajectoryInfo info = walk_info(members, kSteps, {2});
    std::vector<float> states = walks(info, seed);
    for (std::size_t i = 0; i < states.size(); ++i) states[i] *= i % 2 == 0 ? first : 1000.0f;
    return write(name, info, states);
  };
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0;
  const Evaluation e =
      evaluate(scaled("g.h5", 500, 1, 0.0f), scaled("t.h5", 1000, 0, 1.0f), options);
  EXPECT_NEAR(e.find("spread-skill ratio")->value, std::sqrt(0.5), 0.05);
}

TEST_F(ScoresTest, FewDirectionsGiveTheSameInterval) {
  const auto truth = write_walks("t.h5", walk_info(400, kSteps, {2}), 0);
  const auto generated = write_walks("g.h5", walk_info(200, kSteps, {2}), 1);
  const auto reach = [&](std::int64_t directions) {
    EvaluateOptions options;
    options.exact_points = 0, options.distances_only = true, options.directions = directions;
    const Score score = evaluate(generated, truth, options).headline();
    return score.interval->high - score.value;
  };
  EXPECT_NEAR(reach(128) / reach(8), 1, 0.2);
}

TEST_F(ScoresTest, SpectraSeeWhatMeansDoNot) {
  const TrajectoryInfo half = walk_info(50, 3, {1, 8, 8});
  const auto truth = write_walks("truth.h5", walk_info(100, 3, {1, 8, 8}), 0);
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

TEST_F(ScoresTest, QuantilesAreOfAllMembers) {
  const auto truth = write_walks("truth.h5", walk_info(2000, 3, {1}), 0);
  const auto generated = write_walks("generated.h5", walk_info(1000, 3, {1}), 1);
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0;
  options.max_members = 50;
  const Evaluation e = evaluate(generated, truth, options);
  ASSERT_EQ(e.quantiles.size(), 1u);
  EXPECT_EQ(e.members, 50);
  EXPECT_EQ(e.generated_quantile_members, 1000);
  EXPECT_EQ(e.truth_quantile_members, 2000);
  const double level95 = 1.6449 * std::sqrt(3.0);  // of a sum of three normals
  EXPECT_NEAR(e.quantiles[0].truth[2][5], level95, 0.25);
  EXPECT_NEAR(e.quantiles[0].generated[2][1], -level95, 0.35);
  EXPECT_NEAR(e.quantiles[0].generated[2][3], 0, 0.25);
}

// A model that mixes the groups up is perfect as a whole and wrong from each start.
TEST_F(ScoresTest, BranchesAreComparedByTheirStart) {
  EvaluateOptions options;
  options.exact_points = 0, options.cuts = 4, options.bootstrap = 10;
  const auto truth = write_branches("t.h5", {8 * 64, 64, 0});
  const Evaluation good = evaluate(write_branches("g.h5", {8 * 32, 32, 1}), truth, options);
  EXPECT_EQ(good.branch_groups, 8);
  EXPECT_EQ(good.conditional.front().metric, "sliced W2");
  EXPECT_NEAR(good.conditional.front().ratio(), 1, 0.25);
  const Evaluation mixed =
      evaluate(write_branches("g.h5", {8 * 32, 32, 1, 0, true}), truth, options);
  EXPECT_NEAR(mixed.headline().ratio(), 1, 0.5);
  EXPECT_GT(mixed.conditional.front().ratio(), 10);

  // One true branch from each state verifies: scores without floors.
  const Evaluation verified =
      evaluate(write_branches("g.h5", {8 * 32, 32, 1}), write_branches("t.h5", {8, 1, 2}), options);
  ASSERT_FALSE(verified.conditional.empty());
  EXPECT_EQ(verified.conditional.front().metric, "fair CRPS");
  EXPECT_TRUE(std::isnan(verified.conditional.front().floor));
  EXPECT_EQ(verified.to_json()["conditional"]["scores"][0]["ratio"], nullptr);

  const auto elsewhere = write_walks(
      "e.h5",
      [] {
        TrajectoryInfo info = walk_info(256, kSteps, {2});
        info.branches = 32;
        return info;
      }(),
      3);
  EXPECT_EQ(evaluate(elsewhere, truth, options).branch_groups, 0) << "other starts";
}

// Records evaluate as the states they were made from.
TEST_F(ScoresTest, RecordsGiveTheSameScoresAsStates) {
  for (const auto& shape : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{1, 6, 8}}) {
    TrajectoryInfo info = walk_info(30, kSteps, shape);
    const std::vector<float> states = walks(info, 1);
    const auto generated = write("g.h5", info, states);
    const auto truth = write_walks("t.h5", walk_info(60, kSteps, shape), 0);
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

// Three states that hardly vary at first; noise that is nothing beside what comes later.
TEST_F(ScoresTest, StepsThatHardlyVaryDoNotDecideTheSpread) {
  const auto growing = [&](const std::string& name, std::int64_t members, std::uint64_t seed,
                           float noise) {
    const TrajectoryInfo info = walk_info(members, kSteps, {2});
    std::vector<float> states = walks(info, seed);
    const std::vector<float> rough = walks(info, seed + 100);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::size_t t = i / 2 % kSteps;
      states[i] = states[i] * (t < 4 ? 1e-6f : 1.0f) + noise * rough[i];
    }
    return write(name, info, states);
  };
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0;
  const Evaluation e =
      evaluate(growing("g.h5", 500, 1, 1e-5f), growing("t.h5", 1000, 0, 0), options);
  const Score* spread = e.find("spread-skill ratio");
  EXPECT_NEAR(spread->value, 1, 0.1);
  EXPECT_GT(spread->over_time[0], 5) << "each step is shown as it is";
  const Score* ranks = e.find("unevenness of ranks");
  EXPECT_LT(ranks->ratio(), 2);
  EXPECT_EQ(ranks->time, (std::vector<double>{0.8, 1}));
}

TEST_F(ScoresTest, ConstantComponentsTakeNoPartInTheSpread) {
  for (const float constant : {0.0f, 0.1f, 0.25f, 1e6f}) {
    const auto with_constant = [&](const std::string& name, std::int64_t members,
                                   std::uint64_t seed, float noise) {
      const TrajectoryInfo info = walk_info(members, kSteps, {2});
      std::vector<float> states = walks(info, seed);
      for (std::size_t i = 1; i < states.size(); i += 2) states[i] = constant + noise * states[i];
      return write(name, info, states);
    };
    EvaluateOptions options;
    options.exact_points = 0, options.bootstrap = 0;
    const Evaluation e =
        evaluate(with_constant("g.h5", 500, 1, 1e-4f), with_constant("t.h5", 1000, 0, 0), options);
    EXPECT_NEAR(e.find("spread-skill ratio")->value, 1, 0.15) << constant;
    EXPECT_LT(e.find("unevenness of ranks")->ratio(), 2) << constant;
  }
}

// One member of a field that diverged, but is finite, must not look better than the truth.
TEST_F(ScoresTest, WhatDivergedIsFarOff) {
  for (const auto& shape : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{1, 4, 4}}) {
    const TrajectoryInfo info = walk_info(40, kSteps, shape);
    std::vector<float> states = walks(info, 1);
    for (std::int64_t i = info.state_size(); i < info.trajectory_size(); ++i) {
      states[static_cast<std::size_t>(i)] *= 1e30f;
    }
    const Evaluation e = evaluate(write("g.h5", info, states),
                                  write_walks("t.h5", walk_info(80, kSteps, shape), 0), {});
    EXPECT_GT(e.headline().ratio(), 1e20);
    const bool of_vectors = shape.size() == 1;
    EXPECT_GT(of_vectors ? e.find("exact W2")->ratio() : 1e30, 1e20);
    // 12 decades are all that a spectrum resolves.
    EXPECT_GT(of_vectors ? 100 : e.find("log10 spectrum")->value, 10);
    for (const auto& row : e.generated_std) {
      for (const double deviation : row) EXPECT_TRUE(std::isfinite(deviation));
    }
  }
}

// Members of a file that begins within a group: those of whole groups are compared, with their own
// starts.
TEST_F(ScoresTest, GroupsBeginWhereTheirStartDoes) {
  EvaluateOptions options;
  options.exact_points = 0, options.bootstrap = 0;
  const auto truth = write_branches("t.h5", {8 * 64, 64, 0});
  // Starts 1 to 7 are whole in the first, 4 to 7 in the second.
  for (const auto& [first, groups] : {std::pair(15, 7), std::pair(4 * 32, 4)}) {
    const Evaluation e =
        evaluate(write_branches("g.h5", {8 * 32 - first, 32, 1, first}), truth, options);
    EXPECT_EQ(e.branch_groups, groups);
    ASSERT_FALSE(e.conditional.empty());
    EXPECT_NEAR(e.conditional.front().ratio(), 1, 0.3);
  }
}

// The intervals of scores by start are as wide as the scores vary from ensemble to ensemble.
TEST_F(ScoresTest, IntervalsOfScoresByStartHaveTheRightWidth) {
  constexpr int kRepeats = 24;  // their deviation is known to 15 %
  EvaluateOptions options;
  options.exact_points = 0, options.directions = 8;
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, double> errors;
  for (std::uint64_t seed = 0; seed < kRepeats; ++seed) {
    const Evaluation e = evaluate(write_branches("g.h5", {32 * 4, 4, 2 * seed}),
                                  write_branches("t.h5", {32 * 8, 8, 2 * seed + 1}), options);
    EXPECT_EQ(e.branch_groups, 32);
    for (const Score& score : e.conditional) {
      values[score.metric].push_back(score.value);
      errors[score.metric] += (score.interval->high - score.interval->low) / (2 * 1.96 * kRepeats);
    }
  }
  EXPECT_EQ(values.size(), 4u);
  for (const auto& [metric, of_metric] : values) {
    double mean = 0, squares = 0;
    for (const double v : of_metric) mean += v / kRepeats;
    for (const double v : of_metric) squares += (v - mean) * (v - mean) / (kRepeats - 1);
    EXPECT_GT(errors[metric], 0.7 * std::sqrt(squares)) << metric;
    // Resampled, a histogram that is nearly flat is more uneven: its interval errs to the safe
    // side.
    EXPECT_LT(errors[metric], (metric == "unevenness of ranks" ? 3 : 1.7) * std::sqrt(squares))
        << metric;
  }
}

}  // namespace
}  // namespace slift
