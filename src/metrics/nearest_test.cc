#include "metrics/nearest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

using Shape = std::vector<std::int64_t>;
using States = std::vector<float>;  // [members, steps, state]

// Many dimensions: x_{t+1} = 0.9 x_t + noise, 20 steps of 2 components.
constexpr std::int64_t kPathSteps = 21;
States noisy_paths(std::int64_t members, std::uint64_t seed) {
  States all;
  for (std::int64_t m = 0; m < members; ++m) {
    States one(2 * kPathSteps);
    fill_normal({seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(m), 0}, one);
    for (std::size_t i = 2; i < one.size(); ++i) one[i] += 0.9f * one[i - 2];
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Two dimensions: oscillations of random amplitude and phase. New ones often lie close to others.
States oscillations(std::int64_t members, std::uint64_t seed) {
  States all;
  for (std::int64_t m = 0; m < members; ++m) {
    States random(2);
    fill_normal({seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(m), 1}, random);
    for (int t = 0; t < kPathSteps; ++t) {
      const float angle = 0.4f * static_cast<float>(t);
      all.push_back(random[0] * std::cos(angle) + random[1] * std::sin(angle));
      all.push_back(random[1] * std::cos(angle) - random[0] * std::sin(angle));
    }
  }
  return all;
}

// Trajectories of one component that stay at one value after step 0, where they are at `start`.
States constants(const std::vector<float>& values, std::int64_t steps, float start = 0) {
  States all;
  for (const float value : values) {
    all.push_back(start);
    all.insert(all.end(), static_cast<std::size_t>(steps - 1), value);
  }
  return all;
}

States normal_values(std::int64_t count, std::uint64_t seed) {
  States all(static_cast<std::size_t>(count));
  fill_normal({seed, Purpose::kSystemNoise, 0, 2}, all);
  return all;
}

States plus(States states, const States& more, float scale = 1) {
  for (std::size_t i = 0; i < states.size(); ++i) states[i] += scale * more[i];
  return states;
}

States joined(States states, const States& more) {
  states.insert(states.end(), more.begin(), more.end());
  return states;
}

class NearestTest : public testing::TestWithParam<at::Device> {
 protected:
  void SetUp() override { Progress::set_enabled(false); }
  void TearDown() override { Progress::set_enabled(true); }

  TrajectoryReader write(const std::string& name, std::int64_t steps, const Shape& state_shape,
                         const States& states, double dt = 0.5) {
    TrajectoryInfo info;
    info.steps = steps, info.state_shape = state_shape, info.dt = dt;
    info.members = static_cast<std::int64_t>(states.size()) / info.trajectory_size();
    TrajectoryWriter writer(folder_ / name, info);
    writer.write(0, info.members, states);
    writer.commit();
    return TrajectoryReader(folder_ / name);
  }
  TrajectoryReader write_paths(const std::string& name, const States& states) {
    return write(name, kPathSteps, {2}, states);
  }

  NearestOptions options() const {
    NearestOptions result;
    result.device = device_name(GetParam());
    return result;
  }

  // Of `generated` against training data and fresh truth of the same system.
  template <typename System>
  NearestNeighbours compare(const States& generated, const System& system, std::uint64_t seed,
                            std::int64_t fresh = 200) {
    const auto training = write_paths("training.h5", system(200, seed));
    const auto truth = write_paths("truth.h5", system(fresh, seed + 1000));
    return nearest_neighbours(write_paths("generated.h5", generated), training, &truth, options());
  }

  TestFolder folder_;
};

// The definition, in float64.
double distance_of(const States& a, std::int64_t i, std::int64_t a_steps, const States& b,
                   std::int64_t j, std::int64_t b_steps, std::int64_t steps, std::int64_t size) {
  double squares = 0;
  for (std::int64_t k = size; k < (steps + 1) * size; ++k) {
    const double difference =
        static_cast<double>(a[static_cast<std::size_t>(i * a_steps * size + k)]) -
        static_cast<double>(b[static_cast<std::size_t>(j * b_steps * size + k)]);
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(steps * size));
}

TEST_P(NearestTest, AgreesWithBruteForce) {
  // Vectors in one block of steps; fields in three, of 16384 / 4212 = 3 states each.
  for (const Shape& shape : {Shape{3}, Shape{3, 52, 27}}) {
    constexpr std::int64_t kGenerated = 7, kTraining = 13, kFresh = 5, kCompared = 7;
    const std::int64_t size = shape.size() == 1 ? 3 : 3 * 52 * 27;
    const States generated = normal_values(kGenerated * 10 * size, 1);
    const States training = normal_values(kTraining * 8 * size, 2);
    const States fresh = normal_values(kFresh * 9 * size, 3);
    const auto truth = write("truth.h5", 9, shape, fresh);
    const auto result =
        nearest_neighbours(write("generated.h5", 10, shape, generated),
                           write("training.h5", 8, shape, training), &truth, options());
    EXPECT_EQ(result.steps, kCompared);
    EXPECT_EQ(result.training_members, kTraining);
    ASSERT_TRUE(result.floor);
    const auto check = [&](const Neighbours& found, const States& states, std::int64_t steps,
                           std::int64_t members) {
      ASSERT_EQ(std::ssize(found.nearest), members);
      double sum = 0, neighbour_sum = 0, copied = 0;
      for (std::int64_t i = 0; i < members; ++i) {
        std::int64_t nearest = 0;
        double best = 1e9, beyond = 1e9;
        for (std::int64_t j = 0; j < kTraining; ++j) {
          const double d = distance_of(states, i, steps, training, j, 8, kCompared, size);
          if (d < best) best = d, nearest = j;
        }
        for (std::int64_t j = 0; j < kTraining; ++j) {
          if (j == nearest) continue;
          beyond =
              std::min(beyond, distance_of(training, nearest, 8, training, j, 8, kCompared, size));
        }
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(found.nearest[at], nearest);
        EXPECT_NEAR(found.distance[at], best, 2e-6 * best);
        EXPECT_NEAR(found.neighbour_distance[at], beyond, 2e-6 * beyond);
        sum += best, neighbour_sum += beyond, copied += best <= beyond / 2;
      }
      EXPECT_NEAR(found.value, sum / neighbour_sum, 1e-5);
      EXPECT_DOUBLE_EQ(found.copied, copied / static_cast<double>(members));
    };
    check(result.members, generated, 10, kGenerated);
    check(result.floor->members, fresh, 9, kFresh);
    EXPECT_DOUBLE_EQ(result.floor->ratio, result.members.value / result.floor->members.value);
    EXPECT_DOUBLE_EQ(result.floor->excess_copied,
                     result.members.copied - result.floor->members.copied);
  }
}

TEST_P(NearestTest, DoesNotDependOnTheMemoryItMayUse) {
  const Shape shape = {1, 64, 64};  // 4 states at a time
  const auto generated = write("generated.h5", 7, shape, normal_values(5 * 7 * 4096, 1));
  const auto training = write("training.h5", 7, shape, normal_values(9 * 7 * 4096, 2));
  const auto truth = write("truth.h5", 7, shape, normal_values(3 * 7 * 4096, 3));
  NearestOptions memory = options();
  const auto whole = nearest_neighbours(generated, training, &truth, memory).to_json();
  // One pair, a few pairs, all of one side at a time.
  for (const std::int64_t bytes : {1, 300 << 10, 700 << 10}) {
    memory.memory_bytes = bytes;
    EXPECT_EQ(nearest_neighbours(generated, training, &truth, memory).to_json(), whole) << bytes;
  }
}

TEST_P(NearestTest, KnowsASmallCaseByHeart) {
  const auto training = write("training.h5", 4, {1}, constants({0, 1, 3, 9}, 4));
  // Step 0 is far off and must not count. The first is nearest to 0 (then 1), the others to 9
  // (then 3).
  const auto generated = write("generated.h5", 4, {1}, constants({-0.25f, 8.5f, 13}, 4, 100));
  const auto result = nearest_neighbours(generated, training, nullptr, options());
  EXPECT_EQ(result.members.nearest, (std::vector<std::int64_t>{0, 3, 3}));
  EXPECT_EQ(result.members.distance, (std::vector<double>{0.25, 0.5, 4}));
  EXPECT_EQ(result.members.neighbour_distance, (std::vector<double>{1, 6, 6}));
  EXPECT_DOUBLE_EQ(result.members.value, 4.75 / 13);
  EXPECT_DOUBLE_EQ(result.members.copied, 2.0 / 3);
  EXPECT_FALSE(result.floor);
}

TEST_P(NearestTest, IntervalsAreStandardErrors) {
  // Training trajectories in pairs 4 apart, so that d' = 4. Members lie 1 before a pair, which is a
  // copy, or 3 before it: half and half of the generated, a quarter and the rest of fresh truth.
  constexpr int n = 400;
  std::vector<float> places, generated, fresh;
  for (int i = 0; i < n; ++i) {
    const float pair = 100.0f * static_cast<float>(i);
    places.insert(places.end(), {pair, pair + 4});
    generated.push_back(pair - (i % 2 == 0 ? 1.0f : 3.0f));
    fresh.push_back(pair - (i % 4 == 0 ? 1.0f : 3.0f));
  }
  const auto truth = write("truth.h5", 3, {1}, constants(fresh, 3));
  NearestOptions many = options();
  many.bootstrap = 2000;
  const auto result =
      nearest_neighbours(write("generated.h5", 3, {1}, constants(generated, 3)),
                         write("training.h5", 3, {1}, constants(places, 3)), &truth, many);
  // 2000 replicates know a standard error to 1.6 %.
  const auto check = [](const Interval& interval, double estimate, double variance) {
    const double reach = 1.96 * std::sqrt(variance / n);
    EXPECT_NEAR(interval.low, estimate - reach, 0.08 * reach);
    EXPECT_NEAR(interval.high, estimate + reach, 0.08 * reach);
  };
  const NearestFloor& floor = *result.floor;
  EXPECT_DOUBLE_EQ(result.members.value, 0.5);
  EXPECT_DOUBLE_EQ(floor.members.value, 0.625);
  EXPECT_DOUBLE_EQ(floor.ratio, 0.8);
  EXPECT_DOUBLE_EQ(floor.excess_copied, 0.25);
  // A share p has variance p (1 - p) and a value, of 1/4 and 3/4, half of its standard deviation.
  check(result.members.value_interval, 0.5, 0.25 / 4);
  check(floor.members.value_interval, 0.625, 0.1875 / 4);
  check(floor.ratio_interval, 0.8,
        0.8 * 0.8 * (0.25 / 4 / (0.5 * 0.5) + 0.1875 / 4 / (0.625 * 0.625)));
  check(floor.excess_interval, 0.25, 0.25 + 0.1875);
}

TEST_P(NearestTest, CopiesAreMemorising) {
  const auto check = [&](const auto& system) {
    const States training = system(200, 5);
    const auto exact = compare(training, system, 5);
    EXPECT_EQ(exact.members.value, 0);
    EXPECT_EQ(exact.members.copied, 1);
    for (std::size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(exact.members.nearest[i], static_cast<std::int64_t>(i));
    }
    EXPECT_EQ(exact.floor->ratio, 0);
    EXPECT_TRUE(exact.floor->memorising());
    // With noise of a fifth of the distance between neighbours.
    const double apart = exact.floor->members.distance[0];
    const auto noisy = compare(
        plus(training, normal_values(std::ssize(training), 9), static_cast<float>(0.2 * apart)),
        system, 5);
    EXPECT_GT(noisy.floor->ratio, 0.05);
    EXPECT_LT(noisy.floor->ratio, 0.5);
    EXPECT_TRUE(noisy.floor->memorising());
  };
  check(noisy_paths);
  check(oscillations);
}

TEST_P(NearestTest, SomeCopiesAmongNewOnesAreMemorising) {
  const auto check = [&](const auto& system, std::int64_t copies, std::int64_t fresh) {
    const auto result = compare(joined(system(copies, 5), system(fresh, 77)), system, 5);
    const double share = static_cast<double>(copies) / static_cast<double>(copies + fresh);
    // The rest copies as often as fresh truth does.
    const double expected = share * (1 - result.floor->members.copied);
    EXPECT_NEAR(result.floor->excess_copied, expected, 0.12);
    EXPECT_TRUE(result.floor->memorising()) << copies << " of " << copies + fresh;
  };
  check(noisy_paths, 100, 100);
  check(oscillations, 100, 100);
  check(noisy_paths, 25, 175);  // an eighth: the ratio alone would not tell
}

TEST_P(NearestTest, FreshTruthIsNot) {
  int flagged = 0;
  double worst = 0;
  const auto check = [&](const auto& system, std::int64_t members, std::int64_t fresh) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const auto result = compare(system(members, seed + 500), system, seed, fresh);
      flagged += result.floor->memorising();
      worst = std::max(worst, std::abs(std::log(result.floor->ratio)));
    }
  };
  check(noisy_paths, 200, 200);
  check(oscillations, 200, 200);
  check(oscillations, 10, 30);  // few members: wide intervals, no false alarm
  EXPECT_EQ(flagged, 0);
  EXPECT_LT(worst, std::log(2.5));
}

TEST_P(NearestTest, CollapseToTheMeanIsNoMemorising) {
  // From the mean it is sigma to every trajectory in many dimensions, between two sqrt(2) sigma.
  const States mean(200 * kPathSteps * 2, 0.0f);
  const auto result = compare(mean, noisy_paths, 5);
  EXPECT_FALSE(result.floor->memorising());
  EXPECT_LT(result.floor->ratio, 0.9);
}

TEST_P(NearestTest, OnlyTheFirstMembersCount) {
  const auto generated = write("generated.h5", 3, {1}, constants({4, 1, 2}, 3));
  const auto training = write("training.h5", 3, {1}, constants({0, 8, 3, 4}, 3));
  NearestOptions some = options();
  some.max_members = 2;
  EXPECT_EQ(nearest_neighbours(generated, training, nullptr, some).members.nearest,
            (std::vector<std::int64_t>{3, 0}));
  some.training_members = 3;
  const auto result = nearest_neighbours(generated, training, &generated, some);
  EXPECT_EQ(result.members.nearest, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(result.training_members, 3);
  EXPECT_EQ(result.floor->members.nearest, result.members.nearest);
}

TEST_P(NearestTest, TheSameReaderOnBothSidesFindsItself) {
  const auto training = write_paths("training.h5", noisy_paths(20, 1));
  EXPECT_EQ(nearest_neighbours(training, training, nullptr, options()).members.value, 0);
}

TEST_P(NearestTest, CopiesOfATrainingTrajectoryThatIsThereTwiceCount) {
  const auto training = write("training.h5", 3, {1}, constants({5, 5, 0, 1}, 3));
  const auto generated = write("generated.h5", 3, {1}, constants({5, 5.5f, 0.9f}, 3));
  const auto result = nearest_neighbours(generated, training, nullptr, options());
  EXPECT_EQ(result.members.nearest, (std::vector<std::int64_t>{0, 0, 3}));
  EXPECT_EQ(result.members.neighbour_distance, (std::vector<double>{0, 0, 1}));
  EXPECT_DOUBLE_EQ(result.members.copied, 2.0 / 3);
}

TEST_P(NearestTest, JsonHasTheDocumentedKeys) {
  const auto training = write("training.h5", 3, {1}, constants({0, 1, 3}, 3));
  const auto truth = write("truth.h5", 3, {1}, constants({0.5f, 2}, 3));
  const auto keys = [](const nlohmann::json& object) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    return names;  // sorted, as nlohmann keeps them
  };
  const auto generated = write("generated.h5", 3, {1}, constants({0.75f}, 3));
  EXPECT_EQ(keys(nearest_neighbours(generated, training, nullptr, options()).to_json()),
            (std::vector<std::string>{"copied", "interval", "members", "steps", "training",
                                      "training_members", "value"}));
  const auto full = nearest_neighbours(generated, training, &truth, options()).to_json();
  EXPECT_EQ(keys(full),
            (std::vector<std::string>{"copied", "copied_floor", "excess_interval", "floor",
                                      "floor_interval", "fresh_members", "fresh_truth", "interval",
                                      "members", "memorising", "ratio", "ratio_interval", "steps",
                                      "training", "training_members", "value"}));
  EXPECT_EQ(full["members"].dump(),
            R"({"distance":[0.25],"nearest":[1],"neighbour_distance":[1.0]})");
  EXPECT_EQ(full["fresh_members"]["nearest"].dump(), "[0,1]");
  EXPECT_EQ(full["value"], 0.25);
  EXPECT_EQ(full["floor"], 0.75);
  EXPECT_DOUBLE_EQ(full["ratio"].get<double>(), 0.25 / 0.75);
  EXPECT_EQ(full["copied"], 1);
  EXPECT_EQ(full["copied_floor"], 0.5);
  EXPECT_EQ(full["training"], (folder_ / "training.h5").string());
  EXPECT_EQ(full["fresh_truth"], (folder_ / "truth.h5").string());
}

TEST_P(NearestTest, FilesThatDoNotFitAreUserErrors) {
  const auto training = write("training.h5", 3, {2}, normal_values(4 * 3 * 2, 1));
  const auto good = write("good.h5", 3, {2}, normal_values(4 * 3 * 2, 2));
  const auto error = [&](const TrajectoryReader& generated, const TrajectoryReader* truth,
                         const NearestOptions& with) {
    return error_of([&] { nearest_neighbours(generated, training, truth, with); });
  };
  const std::string path = (folder_ / "bad.h5").string();
  const auto wide = write("bad.h5", 3, {3}, normal_values(4 * 3 * 3, 2));
  EXPECT_EQ(error(wide, nullptr, options()),
            path + ": states 3 do not fit the 2 of " + training.path());
  EXPECT_EQ(error(good, &wide, options()), error(wide, nullptr, options()));
  const auto slow = write("bad.h5", 3, {2}, normal_values(4 * 3 * 2, 2), 0.25);
  EXPECT_EQ(error(slow, nullptr, options()),
            path + ": time step 0.25 does not fit the 0.5 of " + training.path());
  const auto single = write("bad.h5", 1, {2}, normal_values(4 * 2, 2));
  EXPECT_EQ(error(single, nullptr, options()),
            path + ": at least 2 stored states are needed in all files, got 1");
  EXPECT_EQ(error(good, &training, options()), training.path() + ": 4 of 4 trajectories are in " +
                                                   training.path() +
                                                   " too; the floor needs others");
  NearestOptions wrong = options();
  wrong.training_members = 5;
  EXPECT_EQ(error(good, nullptr, wrong),
            training.path() + ": training trajectories to compare with must be 2 to 4, got 5");
  wrong = options();
  wrong.bootstrap = 1;
  EXPECT_NE(error(good, nullptr, wrong), "");
}

TEST_P(NearestTest, ValuesThatDoNotAddUpAreUserErrors) {
  const auto training = write("training.h5", 3, {2}, normal_values(4 * 3 * 2, 1));
  const auto error = [&](const TrajectoryReader& generated, const TrajectoryReader& other) {
    return error_of([&] { nearest_neighbours(generated, other, nullptr, options()); });
  };
  const std::string path = (folder_ / "bad.h5").string();
  States states = normal_values(4 * 3 * 2, 2);
  states[2 * 6 + 2 * 2] = std::numeric_limits<float>::quiet_NaN();
  const auto nan = write("bad.h5", 3, {2}, states);
  EXPECT_EQ(error(nan, training), path + ": trajectory 2, step 2: nan is not finite");
  EXPECT_EQ(error(training, nan), path + ": trajectory 2, step 2: nan is not finite");
  const auto far = write("bad.h5", 3, {2}, States(6, 1e30f));
  EXPECT_EQ(error(far, training), path + ": trajectory 0 is too far from those of " +
                                      training.path() + ": the distance overflows");
  const auto twice = write("bad.h5", 3, {2}, joined(normal_values(6, 3), normal_values(6, 3)));
  EXPECT_EQ(error(training, twice), path + ": every trajectory found nearest is there twice");
}

INSTANTIATE_TEST_SUITE_P(Devices, NearestTest, testing::ValuesIn(test_devices()), DeviceName());

TEST(DistanceBlocks, FitInMemoryAndFillIt) {
  for (const std::int64_t bytes : {1ll << 20, 1ll << 24, 256ll << 20}) {
    for (const std::int64_t rows : {1, 70, 1024, 3000}) {
      for (const std::int64_t columns : {2, 512, 43000}) {
        for (const std::int64_t size : {1, 2, 729, 4096, 12288}) {
          const DistanceBlocks cut = cut_distances(rows, columns, 64, size, bytes);
          SCOPED_TRACE(fmt::format("{} bytes, {} x {} of {}", bytes, rows, columns, size));
          EXPECT_LE(cut.bytes(size), bytes);
          ASSERT_GE(cut.rows, 1);
          ASSERT_GE(cut.columns, 1);
          EXPECT_LE(cut.rows, rows);
          EXPECT_LE(cut.columns, columns);
          // Unless all fits, one more row or column would not.
          DistanceBlocks taller = cut, wider = cut;
          ++taller.rows, ++wider.columns;
          EXPECT_TRUE(cut.rows == rows || taller.bytes(size) > bytes);
          EXPECT_TRUE(cut.columns == columns || wider.bytes(size) > bytes);
        }
      }
    }
  }
}

TEST(DistanceBlocks, ReadLongPiecesWhateverTheMemory) {
  for (const std::int64_t bytes : {1ll, 1ll << 20, 1ll << 30}) {
    EXPECT_EQ(cut_distances(9, 9, 70, 2, bytes).states, 70);
    EXPECT_EQ(cut_distances(9, 9, 64, 4096, bytes).states, 4);
    EXPECT_EQ(cut_distances(9, 9, 15, 49152, bytes).states, 1);
  }
}

TEST(DistanceBlocks, AreOnePairIfMoreDoNotFit) {
  const DistanceBlocks cut = cut_distances(100, 100, 15, 49152, 1000);
  EXPECT_EQ(cut.rows, 1);
  EXPECT_EQ(cut.columns, 1);
}

TEST(DistanceBlocks, AreNotThinnerThanNeeded) {
  // 4 bytes * 16384 values of each side: far from square blocks would read the files more often.
  const DistanceBlocks cut = cut_distances(40000, 40000, 64, 4096, 256ll << 20);
  EXPECT_NEAR(static_cast<double>(cut.rows), static_cast<double>(cut.columns),
              0.01 * static_cast<double>(cut.rows));
}

}  // namespace
}  // namespace slift
