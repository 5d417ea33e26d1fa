#include "report/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace slift {
namespace {

using nlohmann::json;

json score_json(const char* metric, const char* name) {
  return {{"name", name}, {"metric", metric}, {"value", 3}, {"floor", 2}, {"ratio", 1.5}};
}

std::string words(const char* metric, const char* name) {
  return name_in_words(read_scores(json::array({score_json(metric, name)})).front());
}

TEST(ReportScores, AreReadWithTheirDetails) {
  json score = score_json("W2 of crossing times", "corner");
  score["interval"] = {2.5, 3.5};
  score["floor_interval"] = {1.5, 2.5};
  score["ratio_interval"] = {1.25, 1.75};
  score["never_generated"] = 0.25;
  score["never_truth"] = 0.125;
  score["points"] = 512;
  const ReportScore s = read_scores(json::array({score})).front();
  EXPECT_EQ(s.name, "corner");
  EXPECT_EQ(s.metric, "W2 of crossing times");
  EXPECT_EQ(s.value, 3);
  EXPECT_EQ(s.floor, 2);
  EXPECT_EQ(s.ratio, 1.5);
  EXPECT_EQ(s.low, 2.5);
  EXPECT_EQ(s.high, 3.5);
  EXPECT_EQ(s.ratio_low, 1.25);
  EXPECT_EQ(s.ratio_high, 1.75);
  EXPECT_EQ(s.never_generated, 0.25);
  EXPECT_EQ(s.never_truth, 0.125);
  EXPECT_EQ(s.points, 512);
}

TEST(ReportScores, WhatIsMissingOrNullIsNaN) {
  json score = score_json("sliced W2", "state");
  score["floor"] = nullptr;
  score["interval"] = {nullptr, 4};
  const ReportScore s = read_scores(json::array({score})).front();
  for (const double number :
       {s.floor, s.low, s.ratio_low, s.ratio_high, s.points, s.never_generated, s.never_truth}) {
    EXPECT_TRUE(std::isnan(number));
  }
  EXPECT_EQ(s.high, 4);
  score.erase("value");
  EXPECT_THROW(read_scores(json::array({score})), json::exception);
}

TEST(ReportScores, AreFoundByMetricAndName) {
  const auto scores = read_scores(
      json::array({score_json("W2", "a"), score_json("fair CRPS", "b"), score_json("W2", "b")}));
  EXPECT_EQ(find_score(scores, "W2", "b"), &scores[2]);
  EXPECT_EQ(find_score(scores, kFairCrps, "a"), nullptr);
}

TEST(ReportScores, HaveNamesAndUnitsInWords) {
  EXPECT_EQ(words("sliced W2", "state"), "sliced W2 of the state");
  EXPECT_EQ(words("W2", "mean |x|"), "W2 of mean |x| (WIM)");
  EXPECT_EQ(words("W2", "corner"), "W2 of corner");
  EXPECT_EQ(words("W2 of crossing times", "corner"), "W2 of crossing times of corner (WCT)");
  EXPECT_EQ(words("fair CRPS", "mean |x|"), "fair CRPS of mean |x|");
  EXPECT_EQ(unit_in_words(read_scores(json::array({score_json("fair CRPS", "a")})).front()),
            "units of x");
  EXPECT_EQ(unit_in_words(read_scores(json::array({score_json("new metric", "a")})).front()), "");
}

TEST(ReportScores, NumbersAreShort) {
  EXPECT_EQ(short_number(1.23456), "1.23");
  EXPECT_EQ(short_number(std::nan("")), "n/a");
  EXPECT_EQ(percent(0.03456), "3.46 %");
  EXPECT_EQ(percent(std::nan("")), "n/a");
}

}  // namespace
}  // namespace slift
