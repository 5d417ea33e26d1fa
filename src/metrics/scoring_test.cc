#include "metrics/scoring.h"

#include <gtest/gtest.h>

#include <numeric>

namespace slift {
namespace {

using DrawnValues = std::vector<float>;

TEST(SortedValues, AreDrawnAsOftenAsAskedFor) {
  const SortedValues sorted(DrawnValues{5, 1, 3, 2}, DrawnValues{10, 30, 20});
  const std::vector<Pairing> pairings = {
      {true, false, {1, 1, 1, 1}, {1, 0, 1}, false},
      {false, false, {0, 1, 0}, {}, true},
      {true, true, {0, 5, 3, 2}, {4, 0, 1}, false},
  };
  std::vector<DrawnValues> ensembles, references;
  sorted.for_each(pairings, 0, [&](std::size_t p, const auto& ensemble, const auto& reference) {
    EXPECT_EQ(p, ensembles.size());
    ensembles.push_back(ensemble);
    references.push_back(reference);
  });
  EXPECT_EQ(ensembles,
            (std::vector<DrawnValues>{{1, 2, 3, 5}, {30}, {1, 1, 1, 1, 1, 2, 2, 3, 3, 3}}));
  EXPECT_EQ(references, (std::vector<DrawnValues>{{10, 20}, {10, 20}, {10, 10, 10, 10, 20}}));
}

TEST(Comparison, CutsAreHalvesAndReplicatesAreResamples) {
  Ensemble generated, truth;
  const Comparison comparison(generated, truth, {{0, 6, 0, 12}}, 3, 4);
  ASSERT_EQ(comparison.pairings().size(), 2u * (3 + 4));
  EXPECT_EQ(comparison.cuts().size(), 6u);
  for (std::size_t p = 0; p < comparison.pairings().size(); p += 2) {
    const Pairing &value = comparison.pairings()[p], &floor = comparison.pairings()[p + 1];
    EXPECT_TRUE(value.generated && !floor.generated && floor.same_reference);
    EXPECT_EQ(value.reference, floor.reference);
    EXPECT_EQ(value.resampled, p >= 6);
    EXPECT_EQ(std::accumulate(value.ensemble.begin(), value.ensemble.end(), 0), 6);
    EXPECT_EQ(std::accumulate(value.reference.begin(), value.reference.end(), 0), 6);
    EXPECT_EQ(std::accumulate(floor.ensemble.begin(), floor.ensemble.end(), 0), 6);
    for (std::size_t m = 0; m < 12; ++m) {  // no member is on both sides
      EXPECT_FALSE(floor.ensemble[m] > 0 && floor.reference[m] > 0);
    }
  }
  EXPECT_EQ(comparison.pairings()[0].reference, (Draws{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_NE(comparison.pairings()[2].reference, comparison.pairings()[4].reference);
  EXPECT_NE(comparison.pairings()[6].ensemble, comparison.pairings()[8].ensemble);
}

// Of several groups, groups are resampled, each with all its members.
TEST(Comparison, GroupsAreResampledWhole) {
  Ensemble generated, truth;
  std::vector<Group> groups;
  for (std::int64_t g = 0; g < 40; ++g) groups.push_back({4 * g, 4, 8 * g, 8});
  const Comparison comparison(generated, truth, groups, 2, 3);
  for (std::size_t p = 0; p < comparison.pairings().size(); p += 2) {
    const Pairing &value = comparison.pairings()[p], &floor = comparison.pairings()[p + 1];
    EXPECT_EQ(value.ensemble, (Draws{1, 1, 1, 1}));
    EXPECT_EQ(value.groups, floor.groups);
    std::int32_t drawn = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) drawn += value.copies_of(g);
    EXPECT_EQ(drawn, 40);
    EXPECT_EQ(value.resampled, !value.groups.empty());
  }
  EXPECT_NE(comparison.pairings()[4].groups, comparison.pairings()[6].groups);
  const SortedValues sorted(DrawnValues{2, 1, 3, 4}, DrawnValues{7, 8});
  std::vector<std::size_t> visited;
  for (std::size_t g = 0; g < 2; ++g) {
    const std::vector<Pairing> pairings = {{true, true, {1, 1, 1, 1}, {1, 1}, false, {0, 3}}};
    sorted.for_each(pairings, g, [&](auto...) { visited.push_back(g); });
  }
  EXPECT_EQ(visited, (std::vector<std::size_t>{1}));
}

TEST(Comparison, OneTrueMemberVerifiesWithoutAFloor) {
  Ensemble generated, truth;
  const Comparison comparison(generated, truth, {{0, 6, 0, 1}, {6, 6, 1, 1}}, 2, 2);
  ASSERT_EQ(comparison.pairings().size(), 4u);
  for (const Pairing& pairing : comparison.pairings()) {
    EXPECT_TRUE(pairing.generated);
    EXPECT_EQ(pairing.reference, Draws{1});
  }
}

TEST(Score, HasATitleInWords) {
  Score score;
  score.name = "mean |x|", score.metric = "W2";
  EXPECT_EQ(score.title(), "W2 of mean |x| (WIM)");
  score.metric = "W2 of crossing times", score.name = "well 3";
  EXPECT_EQ(score.title(), "W2 of crossing times (WCT), well 3");
  score.metric = "fair CRPS", score.name = "state";
  EXPECT_EQ(score.title(), "fair CRPS of state");
}

}  // namespace
}  // namespace slift
