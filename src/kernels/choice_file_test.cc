#include "kernels/choice_file.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/atomic_file.h"
#include "core/testing.h"

namespace slift::kernels {
namespace {

using nlohmann::json;

TEST(ChoiceFile, KeepsChoicesForLaterPrograms) {
  TestFolder folder;
  ChoiceFile first(folder / "new" / "choices.json");
  EXPECT_FALSE(first.find("a"));
  EXPECT_EQ(first.keep("a", {{"tile", 8}}), (json{{"tile", 8}}));
  ChoiceFile later(folder / "new" / "choices.json");
  EXPECT_EQ(later.find("a"), (json{{"tile", 8}}));
  EXPECT_FALSE(later.find("b"));
}

TEST(ChoiceFile, TheFirstToKeepOneDecides) {
  TestFolder folder;
  ChoiceFile one(folder / "choices.json"), other(folder / "choices.json");
  EXPECT_FALSE(one.find("a"));
  EXPECT_FALSE(other.find("a"));
  EXPECT_EQ(one.keep("a", 1), 1);
  EXPECT_EQ(other.keep("a", 2), 1);
  EXPECT_EQ(other.keep("b", 3), 3);
  EXPECT_EQ(one.keep("c", 4), 4);
  EXPECT_EQ(one.find("b"), 3);
  EXPECT_EQ(ChoiceFile(folder / "choices.json").find("b"), 3);
}

TEST(ChoiceFile, AUselessChoiceIsReplacedOnce) {
  TestFolder folder;
  ChoiceFile one(folder / "choices.json"), other(folder / "choices.json");
  one.keep("a", 1);
  EXPECT_EQ(other.find("a"), 1);
  EXPECT_EQ(one.keep("a", 2, 1), 2);
  EXPECT_EQ(other.keep("a", 3, 1), 2);
}

TEST(ChoiceFile, WhatOthersReplacedStaysSo) {
  TestFolder folder;
  ChoiceFile one(folder / "choices.json"), other(folder / "choices.json");
  one.keep("a", 1);
  other.keep("a", 2, 1);
  one.keep("b", 3);
  EXPECT_EQ(one.find("a"), 1);  // in use
  EXPECT_EQ(ChoiceFile(folder / "choices.json").find("a"), 2);
}

TEST(ChoiceFile, IsStartedAnewIfUnreadable) {
  TestFolder folder;
  for (const char* content : {"{\"a\": 1", "[1, 2]", ""}) {
    write_file_atomically(folder / "choices.json", content);
    ChoiceFile file(folder / "choices.json");
    EXPECT_FALSE(file.find("a"));
    EXPECT_EQ(file.keep("a", 2), 2);
    EXPECT_EQ(ChoiceFile(folder / "choices.json").find("a"), 2);
  }
}

TEST(ChoiceFile, ServesWithoutAFile) {
  TestFolder folder;
  write_file_atomically(folder / "no folder", "");
  ChoiceFile file(folder / "no folder" / "choices.json");
  EXPECT_FALSE(file.find("a"));
  EXPECT_EQ(file.keep("a", 1), 1);
  EXPECT_EQ(file.find("a"), 1);
}

TEST(ChoiceFile, ProgramsAtOnceAgree) {
  constexpr std::size_t kPrograms = 6, kNames = 10;
  TestFolder folder;
  std::vector<std::vector<json>> kept(kPrograms);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < kPrograms; ++p) {
    threads.emplace_back([&, p] {
      ChoiceFile file(folder / "choices.json");
      for (std::size_t n = 0; n < kNames; ++n) kept[p].push_back(file.keep(std::to_string(n), p));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ChoiceFile later(folder / "choices.json");
  for (std::size_t n = 0; n < kNames; ++n) {
    const auto expected = later.find(std::to_string(n));
    ASSERT_TRUE(expected);
    for (std::size_t p = 0; p < kPrograms; ++p) EXPECT_EQ(kept[p][n], *expected) << p << ", " << n;
  }
}

}  // namespace
}  // namespace slift::kernels
