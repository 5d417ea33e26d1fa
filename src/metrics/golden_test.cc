// All metrics against the values of tests/golden/metrics_golden.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "metrics/crps.h"
#include "metrics/quantiles.h"
#include "metrics/quantity.h"
#include "metrics/radial_spectrum.h"
#include "metrics/rank_histogram.h"
#include "metrics/spread_skill.h"
#include "metrics/testing.h"
#include "metrics/wasserstein.h"

namespace slift {
namespace {

using nlohmann::json;

constexpr double kGoldenTolerance = 1e-9;

const json& golden_cases(const char* metric) {
  static const json all =
      json::parse(std::ifstream(SLIFT_SOURCE_DIR "/tests/golden/metrics_golden.json"));
  return all.at(metric);
}

Values floats(const json& values) { return values.get<Values>(); }
std::vector<double> doubles(const json& values) { return values.get<std::vector<double>>(); }

void expect_all_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], kGoldenTolerance) << i;
}

TEST(GoldenMetrics, FairCrps) {
  for (const json& c : golden_cases("fair_crps")) {
    const Values x = floats(c.at("ensemble")), y = floats(c.at("verifications"));
    EXPECT_NEAR(fair_crps(x, y), c.at("value"), kGoldenTolerance);
  }
}

TEST(GoldenMetrics, SpreadSkill) {
  for (const json& c : golden_cases("spread_skill")) {
    SpreadSkill score;
    for (const json& group : c.at("groups")) {
      score.add(floats(group.at("ensemble")), floats(group.at("verifications")));
    }
    EXPECT_NEAR(score.spread(), c.at("spread"), kGoldenTolerance);
    EXPECT_NEAR(score.error(), c.at("error"), kGoldenTolerance);
  }
}

TEST(GoldenMetrics, RankHistogram) {
  for (const json& c : golden_cases("rank_histogram")) {
    const auto counts = c.at("counts").get<std::vector<std::int64_t>>();
    RankHistogram ranks(static_cast<std::int64_t>(counts.size()));
    ranks.add(floats(c.at("ensemble")), floats(c.at("verifications")), floats(c.at("uniforms")));
    EXPECT_EQ(ranks.counts(), counts);
    EXPECT_NEAR(ranks.unevenness(), c.at("unevenness"), kGoldenTolerance);
  }
}

TEST(GoldenMetrics, RadialSpectrum) {
  for (const json& c : golden_cases("radial_spectrum")) {
    const RadialSpectrum spectrum(c.at("height"), c.at("width"));
    expect_all_near(spectrum.energy(floats(c.at("field"))), doubles(c.at("energy")));
  }
}

TEST(GoldenMetrics, W2InOneDimension) {
  for (const json& c : golden_cases("w2")) {
    const Values a = floats(c.at("a")), b = floats(c.at("b"));
    EXPECT_NEAR(w2_squared_sorted(a, b), c.at("squared"), kGoldenTolerance);
    EXPECT_NEAR(w2_squared_sorted(b, a), c.at("squared"), kGoldenTolerance);
  }
}

TEST(GoldenMetrics, ExactW2) {
  for (const json& c : golden_cases("exact_w2")) {
    EXPECT_NEAR(exact_w2(floats(c.at("a")), floats(c.at("b")), c.at("dim")), c.at("value"),
                kGoldenTolerance);
  }
}

TEST(GoldenMetrics, SlicedW2) {
  // Directions and projections are rounded to float32.
  for (const json& c : golden_cases("sliced_w2")) {
    EXPECT_NEAR(
        sliced_w2(floats(c.at("a")), floats(c.at("b")), c.at("dim"), floats(c.at("directions"))),
        c.at("value"), 1e-6);
  }
}

TEST(GoldenMetrics, Quantiles) {
  for (const json& c : golden_cases("quantiles")) {
    const Values sample = floats(c.at("sample"));
    const auto levels = doubles(c.at("levels"));
    expect_all_near(quantiles(sample, levels), doubles(c.at("values")));
  }
}

TEST(GoldenMetrics, FirstCrossing) {
  for (const json& c : golden_cases("crossing")) {
    TrajectoryInfo info;
    info.state_shape = {1, c.at("height"), c.at("width")};
    Quantity border;
    border.reduce = "max", border.region = "border";
    border.crossing = "above", border.threshold = c.at("threshold");
    const StateFunction largest(border, info);
    const Values states = floats(c.at("states"));
    const auto size = static_cast<std::size_t>(info.state_size());
    Values series;
    for (std::size_t t = 0; t < states.size() / size; ++t) {
      series.push_back(largest(std::span(states).subspan(t * size, size)));
    }
    const auto time = first_crossing(border, series);
    ASSERT_EQ(time.has_value(), !c.at("time").is_null());
    if (time) {
      EXPECT_NEAR(*time, c.at("time"), kGoldenTolerance);
    }
  }
}

}  // namespace
}  // namespace slift
