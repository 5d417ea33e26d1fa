#include "core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace slift {
namespace {

void expect_block(PhiloxBlock counter, PhiloxKey key, PhiloxBlock expected) {
  const PhiloxBlock got = philox4x32_10(counter, key);
  EXPECT_EQ(got.x0, expected.x0);
  EXPECT_EQ(got.x1, expected.x1);
  EXPECT_EQ(got.x2, expected.x2);
  EXPECT_EQ(got.x3, expected.x3);
}

// The known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  expect_block({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t f = 0xffffffff;
  expect_block({f, f, f, f}, {f, f}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, LogarithmAgreesWithTheLibrary) {
  for (std::uint64_t x = 0; x <= 0xFFFFFFFFu; x += 65521) {
    const float u = philox_uniform(static_cast<std::uint32_t>(x));
    const double expected = std::log(static_cast<double>(u));
    ASSERT_NEAR(philox_log(u), expected, 3e-7 * std::abs(expected) + 1e-9) << u;
  }
}

TEST(Philox, NormalPairIsBoxMuller) {
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const PhiloxBlock x = philox4x32_10({i, 0, 0, 0}, {7, 7});
    const NormalPair pair = philox_normal_pair(x.x0, x.x1);
    const double radius = std::sqrt(-2 * std::log(static_cast<double>(philox_uniform(x.x0))));
    const double angle = 2 * M_PI * (static_cast<double>(x.x1) * 0x1p-32);
    ASSERT_NEAR(pair.first, radius * std::cos(angle), 2e-6);
    ASSERT_NEAR(pair.second, radius * std::sin(angle), 2e-6);
  }
}

TEST(Philox, ExtremeWordsStayFinite) {
  for (const std::uint32_t a : {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    for (const std::uint32_t b : {0u, 0x20000000u, 0x5FFFFFFFu, 0x60000000u, 0xFFFFFFFFu}) {
      const NormalPair pair = philox_normal_pair(a, b);
      EXPECT_TRUE(std::isfinite(pair.first) && std::isfinite(pair.second));
      EXPECT_LT(std::hypot(pair.first, pair.second), 6.8f);
    }
  }
}

TEST(Random, NormalMoments) {
  constexpr std::size_t n = 1 << 20;
  std::vector<float> draws(n);
  fill_normal({3, Purpose::kSystemNoise, 5, 0}, draws);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double z = draws[i];
    m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
    lag += z * static_cast<double>(draws[(i + 1) % n]);
  }
  const double se = 1 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(m1 / n, 0, 4 * se);
  EXPECT_NEAR(m2 / n, 1, 4 * std::sqrt(2.0) * se);
  EXPECT_NEAR(m3 / n, 0, 4 * std::sqrt(15.0) * se);
  EXPECT_NEAR(m4 / n, 3, 4 * std::sqrt(96.0) * se);
  EXPECT_NEAR(lag / n, 0, 4 * se);
}

TEST(Random, EveryCoordinateOfTheAddressMatters) {
  const Stream base{1, Purpose::kTrainingLabel, 2, 3};
  const auto first = [](const Stream& s) { return stream_block(s, 0).x0; };
  EXPECT_NE(first(base), first({2, Purpose::kTrainingLabel, 2, 3}));
  EXPECT_NE(first(base), first({1, Purpose::kRolloutLabel, 2, 3}));
  EXPECT_NE(first(base), first({1, Purpose::kTrainingLabel, 3, 3}));
  EXPECT_NE(first(base), first({1, Purpose::kTrainingLabel, 2 + (1ull << 32), 3}));
  EXPECT_NE(first(base), first({1, Purpose::kTrainingLabel, 2, 4}));
  EXPECT_NE(first(base), stream_block(base, 1).x0);
}

TEST(Random, ShorterDrawIsAPrefix) {
  std::vector<float> longer(11), shorter(6);
  fill_normal({1, Purpose::kSystemNoise, 0, 0}, longer);
  fill_normal({1, Purpose::kSystemNoise, 0, 0}, shorter);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(Random, UniformIsInsideTheInterval) {
  std::vector<float> draws(100003);
  fill_uniform({9, Purpose::kBootstrap, 0, 0}, draws);
  const auto [low, high] = std::minmax_element(draws.begin(), draws.end());
  EXPECT_GT(*low, 0.0f);
  EXPECT_LE(*high, 1.0f);
  const double mean = std::accumulate(draws.begin(), draws.end(), 0.0) / 100003;
  EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(1.0 / 12 / 100003));
}

TEST(Random, PermutationVisitsEverythingOnce) {
  for (const std::uint64_t size : {1ull, 2ull, 3ull, 17ull, 1000ull, 35840ull}) {
    const Permutation shuffle(4, 7, size);
    std::vector<int> seen(size, 0);
    for (std::uint64_t p = 0; p < size; ++p) ++seen[shuffle(p)];
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; })) << size;
  }
}

TEST(Random, PermutationsOfDifferentEpochsDiffer) {
  const Permutation a(4, 7, 1000), b(4, 8, 1000);
  int same = 0;
  for (std::uint64_t p = 0; p < 1000; ++p) same += a(p) == b(p);
  EXPECT_LT(same, 12);  // expected 1, Poisson
}

}  // namespace
}  // namespace slift
