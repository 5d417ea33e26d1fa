#include "core/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <barrier>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace slift {
namespace {

// Leaves OpenMP's number of threads, which parallel_for() obeys, as it was.
class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(GetParam()); }
  void TearDown() override { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
};

TEST_P(Parallel, CallsEachOnce) {
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    std::vector<int> calls(static_cast<std::size_t>(n), 0);
    parallel_for(n, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    EXPECT_EQ(calls, std::vector<int>(calls.size(), 1));
  }
}

TEST_P(Parallel, NoTwoBodiesAtOnceHaveOneSlot) {
  const int slots = GetParam();
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(slots));
  std::atomic<int> shared{0};
  parallel_for_slots(5000, [&](std::int64_t, int slot) {
    std::atomic<int>& mine = inside.at(static_cast<std::size_t>(slot));
    if (mine.fetch_add(1) != 0) ++shared;
    mine.fetch_sub(1);
  });
  EXPECT_EQ(shared, 0);
}

TEST_P(Parallel, PiecesCoverAllOnce) {
  std::vector<int> calls(103, 0);
  std::atomic<int> longest{0};
  parallel_for_pieces(103, 10, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
    if (end - begin > longest) longest = static_cast<int>(end - begin);
  });
  EXPECT_EQ(calls, std::vector<int>(103, 1));
  EXPECT_EQ(longest, 10);
}

TEST_P(Parallel, ThrowsWhatABodyThrewWhenAllAreDone) {
  std::vector<int> calls(100, 0);
  EXPECT_THROW(parallel_for(100,
                            [&](std::int64_t i) {
                              calls[static_cast<std::size_t>(i)] = 1;
                              if (i % 10 == 3) throw std::invalid_argument("as the test wants it");
                            }),
               std::invalid_argument);
  EXPECT_EQ(calls, std::vector<int>(100, 1));
}

TEST_P(Parallel, CallsFromBodiesStayOnTheirThread) {
  std::atomic<int> elsewhere{0}, done{0};
  parallel_for(50, [&](std::int64_t) {
    const auto thread = std::this_thread::get_id();
    parallel_for_slots(20, [&](std::int64_t, int slot) {
      if (slot != 0 || std::this_thread::get_id() != thread) ++elsewhere;
      ++done;
    });
  });
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(done, 1000);
}

TEST_P(Parallel, ThreadsMayCallAtOnce) {
  std::atomic<std::int64_t> sum{0};
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int call = 0; call < 200; ++call) {
          parallel_for(37, [&](std::int64_t i) { sum += i; });
        }
      });
    }
  }
  EXPECT_EQ(sum, 4 * 200 * (36 * 37 / 2));
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 5));

// Would hang if the bodies were called one after the other.
TEST(ParallelFor, RunsBodiesAtOnce) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  std::barrier all(3);
  parallel_for(3, [&](std::int64_t) { all.arrive_and_wait(); });
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace slift
