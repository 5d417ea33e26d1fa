#include "data/journal.h"

#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "core/testing.h"

namespace slift {
namespace {

TEST(JournalTest, RemembersItsOwnWorkOnly) {
  const TestFolder folder;
  Journal journal(folder / "j", "work \"a\"");
  EXPECT_EQ(journal.done(), 0);
  journal.record(3);
  journal.record(5'000'000'000);
  EXPECT_EQ(journal.done(), 5'000'000'000);
  EXPECT_EQ(Journal(folder / "j", "work \"a\"").done(), 5'000'000'000);
  EXPECT_EQ(Journal(folder / "j", "work b").done(), 0);
  EXPECT_EQ(Journal(folder / "j", "").done(), 0);
  EXPECT_THROW(Journal(folder / "j", "").record(1), std::logic_error);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"j"});
}

TEST(JournalTest, ClearLeavesNothing) {
  const TestFolder folder;
  Journal journal(folder / "j", "w");
  journal.record(3);
  write_file_atomically(folder / "j.partial", "of a process killed while it wrote");
  journal.clear();
  EXPECT_EQ(journal.done(), 0);
  EXPECT_EQ(folder.files(), std::vector<std::string>{});
  journal.clear();
}

TEST(JournalTest, BrokenFilesCountAsNothing) {
  const TestFolder folder;
  Journal(folder / "j", "w").record(3);
  const std::string good = read_file(folder / "j");
  const auto done = [&](const std::string& content) {
    write_file_atomically(folder / "j", content);
    return Journal(folder / "j", "w").done();
  };
  EXPECT_EQ(done(good), 3);
  EXPECT_EQ(done(""), 0);
  EXPECT_EQ(done("[]"), 0);
  EXPECT_EQ(done(good.substr(0, good.size() - 3)), 0);
  for (const auto& [from, to] : {std::pair{"slift-journal", "other"}, std::pair{": 1", ": 2"},
                                 std::pair{": 3", ": -3"}, std::pair{": 3", ": \"3\""}}) {
    std::string changed = good;
    changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_EQ(done(changed), 0) << changed;
  }
}

}  // namespace
}  // namespace slift
