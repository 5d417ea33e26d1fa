#include "data/normaliser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/random.h"
#include "core/testing.h"
#include "data/testing.h"

namespace slift {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

double deviation(const std::vector<double>& x) {
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean) / static_cast<double>(x.size());
  return std::sqrt(squares);
}

class NormaliserTest : public testing::Test {
 protected:
  TrajectoryReader write(const TrajectoryInfo& info, const std::vector<float>& states) {
    TrajectoryWriter writer(folder_ / "x.h5", info);
    writer.write(0, info.members, states);
    writer.commit();
    return TrajectoryReader(folder_ / "x.h5");
  }

  // Channel c is 3c + 2^c z: every channel has its own mean and scale.
  static std::vector<float> random_states(const TrajectoryInfo& info) {
    std::vector<float> states(static_cast<std::size_t>(info.members * info.trajectory_size()));
    fill_normal({2, Purpose::kSystemNoise, 0, 0}, states);
    const std::int64_t cells = info.state_size() / info.channels();
    for (std::size_t i = 0; i < states.size(); ++i) {
      const auto c = static_cast<float>(static_cast<std::int64_t>(i) / cells % info.channels());
      states[i] = 3 * c + std::exp2(c) * states[i];
    }
    return states;
  }

  void expect_plain_formulas(const TrajectoryInfo& info, std::int64_t members) {
    const std::vector<float> x = random_states(info);
    const Normaliser got = fit_normaliser(write(info, x), members);
    const std::int64_t size = info.state_size(), cells = size / info.channels();
    const auto count = static_cast<std::size_t>(info.channels());
    ASSERT_EQ(got.mean.size(), count);
    ASSERT_EQ(got.std.size(), count);
    ASSERT_EQ(got.delta_std.size(), count);
    for (std::size_t c = 0; c < count; ++c) {
      std::vector<double> values, differences;
      double total = 0;
      for (std::int64_t i = 0; i < members * info.trajectory_size(); ++i) {
        if (i % size / cells != static_cast<std::int64_t>(c)) continue;
        const double now = x[static_cast<std::size_t>(i)];
        total += now;
        values.push_back(now);
        if (i / size % info.steps + 1 == info.steps) continue;
        differences.push_back(x[static_cast<std::size_t>(i + size)] - now);
      }
      // Results are float: 2^-24 relative.
      const double scale = deviation(values);
      EXPECT_NEAR(got.mean[c], total / static_cast<double>(values.size()), 1e-6 * (1 + scale));
      EXPECT_NEAR(got.std[c], scale, 1e-6 * scale);
      EXPECT_NEAR(got.delta_std[c], deviation(differences), 1e-6 * deviation(differences));
    }
  }

  std::string error_of(float bad, std::int64_t trajectory, std::int64_t step) {
    const TrajectoryInfo info = make_info(6, 5, {2, 2, 3});
    std::vector<float> states = random_states(info);
    states[static_cast<std::size_t>((trajectory * 5 + step) * 12 + 7)] = bad;
    const TrajectoryReader reader = write(info, states);
    try {
      fit_normaliser(reader, 6);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  TestFolder folder_;
};

TEST_F(NormaliserTest, AgreesWithPlainFormulas) {
  expect_plain_formulas(make_info(40, 7, {3}), 40);
  expect_plain_formulas(make_info(9, 4, {3, 5, 6}), 9);
}

TEST_F(NormaliserTest, UsesTheFirstMembersOnly) {
  expect_plain_formulas(make_info(40, 7, {3}), 13);
}

TEST_F(NormaliserTest, ConstantChannelsGetScaleOne) {
  // Channel 0 is constant, channel 1 grows by the same 0.5 each step, channel 2 alternates.
  const TrajectoryInfo info = make_info(3, 4, {3});
  std::vector<float> states;
  for (int m = 0; m < 3; ++m) {
    for (int t = 0; t < 4; ++t) {
      states.insert(states.end(), {0.1f, 0.5f * static_cast<float>(t), t % 2 == 0 ? -2.0f : 2.0f});
    }
  }
  const Normaliser n = fit_normaliser(write(info, states), 3);
  EXPECT_EQ(n.mean, (std::vector<float>{0.1f, 0.75f, 0.0f}));
  EXPECT_EQ(n.std[0], 1.0f);
  EXPECT_FLOAT_EQ(n.std[1], std::sqrt(0.3125f));
  EXPECT_EQ(n.std[2], 2.0f);
  EXPECT_EQ(n.delta_std[0], 1.0f);
  EXPECT_EQ(n.delta_std[1], 1.0f);
  // Differences +4, -4, +4 in each trajectory: mean 4/3, mean square 16.
  EXPECT_FLOAT_EQ(n.delta_std[2], std::sqrt(16.0f - 16.0f / 9));
}

TEST_F(NormaliserTest, ZeroDataGetScaleOne) {
  const TrajectoryInfo info = make_info(2, 3, {1});
  const Normaliser n = fit_normaliser(write(info, std::vector<float>(6, 0.0f)), 2);
  EXPECT_EQ(n.mean[0], 0.0f);
  EXPECT_EQ(n.std[0], 1.0f);
  EXPECT_EQ(n.delta_std[0], 1.0f);
}

TEST_F(NormaliserTest, BadValuesAreNamed) {
  const std::string prefix = (folder_ / "x.h5").string() + ": values must be finite, got ";
  EXPECT_EQ(error_of(kNan, 2, 3), prefix + "nan in trajectory 2, step 3");
  EXPECT_EQ(error_of(kInf, 5, 4), prefix + "inf in trajectory 5, step 4");
  EXPECT_EQ(error_of(-kInf, 0, 0), prefix + "-inf in trajectory 0, step 0");
  EXPECT_EQ(error_of(std::numeric_limits<float>::max(), 2, 3), "");
}

TEST_F(NormaliserTest, RequireFiniteCountsFromTheFirstTrajectory) {
  const TrajectoryInfo info = make_info(200, 3, {2});
  std::vector<float> states(12, 1.0f);
  EXPECT_NO_THROW(require_finite(states, info, 100, "s"));
  states[9] = kInf;
  states[11] = kNan;
  try {
    require_finite(states, info, 100, "s");
    FAIL() << "must throw";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "s: values must be finite, got inf in trajectory 101, step 1");
  }
}

TEST_F(NormaliserTest, JsonRoundTripIsExact) {
  const Normaliser a{{0.1f, -3.0f}, {1e-7f, 2.0f}, {0.3f, 1e9f}};
  const Normaliser b = Normaliser::from_json(nlohmann::json::parse(a.to_json().dump()));
  EXPECT_EQ(b.mean, a.mean);
  EXPECT_EQ(b.std, a.std);
  EXPECT_EQ(b.delta_std, a.delta_std);
  EXPECT_THROW(Normaliser::from_json({{"mean", {1.0}}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace slift
