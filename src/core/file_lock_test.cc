#include "core/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "core/atomic_file.h"
#include "core/testing.h"

namespace slift {
namespace {

std::string error_of_lock(const std::filesystem::path& path) {
  return error_of([&] { const FileLock lock(path, "taken"); });
}

TEST(FileLock, KeepsOthersOutWhileItLives) {
  const TestFolder folder;
  std::optional<FileLock> lock(std::in_place, folder / "new" / "lock", "taken");
  EXPECT_EQ(error_of_lock(folder / "new" / "lock"), "taken");
  EXPECT_EQ(error_of_lock(folder / "new" / "other"), "");
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder / "new"));
  EXPECT_EQ(error_of_lock(folder / "new" / "lock"), "");
}

TEST(FileLock, AFileThatAKillLeftKeepsNobodyOut) {
  const TestFolder folder;
  const auto path = folder / "lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FileLock lock(path, "taken");
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(error_of_lock(path), "taken");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]), close(ready[1]);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(error_of_lock(path), "");
}

// Holders remove the file while others open it: never may two hold it at once.
TEST(FileLock, OneHolderAtATimeHoweverManyTry) {
  const TestFolder folder;
  std::atomic<int> inside = 0, most = 0, entered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 500; ++n) {
        error_of([&] {
          const FileLock lock(folder / "lock", "taken");
          const int now = ++inside;
          if (now > most) most = now;
          ++entered;
          --inside;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(entered, 0);
}

TEST(FileLock, ErrorsNameThePath) {
  const TestFolder folder;
  write_file_atomically(folder / "file", "x");
  EXPECT_NE(error_of_lock(folder / "file" / "lock").find((folder / "file").string()),
            std::string::npos);
  EXPECT_NE(error_of_lock(folder.path()).find(folder.path().string()), std::string::npos);
}

}  // namespace
}  // namespace slift
