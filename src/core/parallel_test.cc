#include "core/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace slift {
namespace {

TEST(ParallelFor, CallsEachOnce) {
  std::vector<int> calls(1000, 0);
  parallel_for(1000, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  EXPECT_EQ(calls, std::vector<int>(1000, 1));
}

TEST(ParallelFor, ThrowsWhatABodyThrewWhenAllAreDone) {
  std::vector<int> calls(100, 0);
  EXPECT_THROW(parallel_for(100,
                            [&](std::int64_t i) {
                              calls[static_cast<std::size_t>(i)] = 1;
                              if (i % 10 == 3) throw std::invalid_argument("as the test wants it");
                            }),
               std::invalid_argument);
  EXPECT_EQ(calls, std::vector<int>(100, 1));
}

}  // namespace
}  // namespace slift
