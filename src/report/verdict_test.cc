#include "report/verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace slift {
namespace {

constexpr double kUnknownNumber = std::numeric_limits<double>::quiet_NaN();

ReportScore score_of(const char* metric, double value, double ratio) {
  ReportScore score;
  score.name = "state";
  score.metric = metric;
  score.value = value;
  score.ratio = ratio;
  score.ratio_low = score.ratio_high = kUnknownNumber;
  return score;
}

// A run with this ratio of its distance and this share of the truth's deviation.
RunData run_of(double ratio, double spread) {
  RunData run;
  run.members = 100;
  run.scores = {score_of("sliced W2", 0.25 * ratio, ratio)};
  run.spread = {spread, spread, "x", "x"};
  return run;
}

Level level_of(const char* metric, double value, double ratio) {
  return judge(score_of(metric, value, ratio));
}

TEST(Verdict, FollowsTheRatioOfTheDistance) {
  EXPECT_EQ(verdict_of(run_of(1.5, 1)).level, Level::kGood);
  EXPECT_EQ(verdict_of(run_of(3.5, 1)).level, Level::kClose);
  EXPECT_EQ(verdict_of(run_of(10, 1)).level, Level::kVisible);
  EXPECT_EQ(verdict_of(run_of(10.1, 1)).level, Level::kBad);
  EXPECT_EQ(verdict_of(run_of(kUnknownNumber, 1)).level, Level::kUnknown);
  RunData run = run_of(2, 1);
  EXPECT_NE(verdict_of(run).distance.find("is 2 times the floor"), std::string::npos);
  EXPECT_EQ(verdict_of(run).distance.find("95 %"), std::string::npos);
  run.scores[0].ratio_low = 1.75, run.scores[0].ratio_high = 2.25;
  EXPECT_NE(verdict_of(run).distance.find("(95 % interval 1.75 to 2.25)"), std::string::npos);
}

TEST(Verdict, EveryMetricIsJudgedByWhatIsRightForIt) {
  // A CRPS of 1.41 times the floor is that of the mean alone; the same ratio of W2 is noise.
  EXPECT_EQ(level_of("W2", 0.1, 1.41), Level::kGood);
  EXPECT_EQ(level_of("fair CRPS", 0.1, 1.41), Level::kBad);
  EXPECT_EQ(level_of("fair CRPS", 0.1, 1.15), Level::kVisible);
  EXPECT_EQ(level_of("fair CRPS", 0.1, 1.04), Level::kClose);
  EXPECT_EQ(level_of("fair CRPS", 0.1, 1.005), Level::kGood);
  // Of the spread-skill ratio too much is as wrong as too little, whatever the floor.
  EXPECT_EQ(level_of("spread-skill ratio", 1.05, 20), Level::kGood);
  EXPECT_EQ(level_of("spread-skill ratio", 0.8, 1), Level::kClose);
  EXPECT_EQ(level_of("spread-skill ratio", 1.2, 1), Level::kClose);
  EXPECT_EQ(level_of("spread-skill ratio", 0.6, 1), Level::kVisible);
  EXPECT_EQ(level_of("spread-skill ratio", 0.4, 1), Level::kBad);
  EXPECT_EQ(level_of("spread-skill ratio", 1.6, 1), Level::kBad);
  EXPECT_EQ(level_of("spread-skill ratio", kUnknownNumber, 1), Level::kUnknown);
}

TEST(Verdict, CollapseIsJudgedByDeviationsIfNothingElseIsKnown) {
  EXPECT_FALSE(verdict_of(run_of(1, 0.51)).collapsed);
  const Verdict flat = verdict_of(run_of(1, 0.49));
  EXPECT_TRUE(flat.collapsed);
  EXPECT_EQ(flat.level, Level::kBad);
  EXPECT_NE(flat.headline.find(", but collapsed towards the mean"), std::string::npos);
  EXPECT_EQ(flat.spread,
            "Its standard deviation is on average 0.49 of the truth's: members differ far too "
            "little.");
  EXPECT_EQ(verdict_of(run_of(1, 2)).spread.substr(0, 9), "Too wide.");
  EXPECT_EQ(verdict_of(run_of(1, kUnknownNumber)).spread, "");
  EXPECT_FALSE(verdict_of(run_of(1, kUnknownNumber)).collapsed);
}

TEST(Verdict, CollapseIsJudgedBySpreadAndSkillWhereTheyAreKnown) {
  RunData run = run_of(1, 0.3);
  run.scores.push_back(score_of(kSpreadSkill, 0.9, 0.9));
  EXPECT_FALSE(verdict_of(run).collapsed);
  EXPECT_EQ(verdict_of(run).spread,
            "Its spread-skill ratio is 0.9 (1 is right), its standard deviation is on average 0.3 "
            "of the truth's.");
  run.conditional.push_back(score_of(kSpreadSkill, 0.25, kUnknownNumber));
  EXPECT_TRUE(verdict_of(run).collapsed);
  EXPECT_NE(verdict_of(run).spread.find(
                "0.9 over all members and 0.25 among members with a common start"),
            std::string::npos);
  run.scores.back().value = 1.6, run.conditional.back().value = 0.7;
  EXPECT_EQ(verdict_of(run).spread.substr(0, 9), "Too wide.");
  run.scores.back().value = run.conditional.back().value = kUnknownNumber;
  EXPECT_TRUE(verdict_of(run).collapsed);  // by deviations again
}

TEST(Verdict, NamesTheWorstScoreIfItIsWorseThanTheFirst) {
  RunData run = run_of(2, 1);
  run.scores.push_back(score_of("W2", 1, 3));
  run.scores.push_back(score_of("exact W2", 1, kUnknownNumber));
  EXPECT_EQ(verdict_of(run).worst, "");
  run.scores.push_back(score_of("log10 spectrum", 1, 20));
  run.scores.push_back(score_of("unevenness of ranks", 1, 5));
  EXPECT_EQ(verdict_of(run).worst,
            "Not all scores are as good; the worst is the log10 spectrum of the state: not to be "
            "trusted.");
  EXPECT_EQ(verdict_of(run).level, Level::kClose);
  run.scores.resize(1);
  run.conditional.push_back(score_of(kFairCrps, 1, 1.1));
  EXPECT_EQ(verdict_of(run).worst,
            "Not all scores are as good; the worst is the fair CRPS of the state, from a common "
            "start: visible error.");
}

TEST(Verdict, SaysWhetherMembersWereMemorised) {
  RunData run = run_of(1, 1);
  EXPECT_EQ(verdict_of(run).nearest, "");
  run.nearest = {0.1, 1.02, 0.875, 0.0625, true};
  EXPECT_TRUE(verdict_of(run).memorised);
  EXPECT_EQ(verdict_of(run).nearest,
            "Memorisation check: memorising. Its members are 0.1 times as far from the nearest "
            "training trajectory as that one is from its own nearest neighbour (fresh truth: "
            "1.02); 87.5 % look copied (fresh truth: 6.25 %).");
  run.nearest->memorising = false;
  EXPECT_FALSE(verdict_of(run).memorised);
  EXPECT_NE(verdict_of(run).nearest.find("not memorising"), std::string::npos);
  run.nearest = {1, kUnknownNumber, 0, kUnknownNumber, std::nullopt};
  EXPECT_FALSE(verdict_of(run).memorised);
  EXPECT_NE(verdict_of(run).nearest.find("no fresh truth"), std::string::npos);
  EXPECT_EQ(verdict_of(run).nearest.find("(fresh"), std::string::npos);
}

}  // namespace
}  // namespace slift
