#include "core/atomic_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(AtomicFile, RoundTripKeepsEveryByteAndLeavesNoPartial) {
  const TestFolder folder;
  std::string content;
  for (int byte = 0; byte < 256; ++byte) content.push_back(static_cast<char>(byte));
  write_file_atomically(folder / "all", content);
  write_file_atomically(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "all"), content);
  EXPECT_EQ(read_file(folder / "empty"), "");
  EXPECT_EQ(folder.files(), (Names{"all", "empty"}));
}

TEST(AtomicFile, OutputsAreToldFromInputs) {
  const TestFolder folder;
  write_file_atomically(folder / "x", "");
  fs::create_directories(folder / "sub");
  fs::create_symlink(folder / "x", folder / "link");
  EXPECT_NO_THROW(require_not_input(folder / "y", {folder / "x", ""}));
  EXPECT_NO_THROW(require_not_input("", {folder / "x"}));
  for (const char* name : {"x", "sub/../x", "link"}) {
    EXPECT_THROW(require_not_input(folder / name, {"", folder / "x"}), UserError) << name;
  }
  const fs::path absent = "slift-no-such-file";
  EXPECT_THROW(require_not_input(absent, {fs::absolute(absent)}), UserError);
}

TEST(AtomicFile, AppearsOnlyWithCommit) {
  const TestFolder folder;
  write_file_atomically(folder / "x", "old");
  {
    PartialFile file(folder / "x");
    EXPECT_EQ(file.final_path(), folder / "x");
    std::ofstream(file.path()) << "new";
    EXPECT_EQ(read_file(folder / "x"), "old");
    EXPECT_EQ(folder.files(), (Names{"x", "x.partial"}));
    file.commit();
    EXPECT_EQ(read_file(folder / "x"), "new");
  }
  EXPECT_EQ(read_file(folder / "x"), "new");
  EXPECT_EQ(folder.files(), Names{"x"});
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TestFolder folder;
  write_file_atomically(folder / "kept", "old");
  for (const char* name : {"kept", "absent"}) {
    const PartialFile file(folder / name);
    std::ofstream(file.path()) << "half";
  }
  EXPECT_EQ(folder.files(), Names{"kept"});
  EXPECT_EQ(read_file(folder / "kept"), "old");
}

TEST(AtomicFile, CreatesMissingFolders) {
  const TestFolder folder;
  write_file_atomically(folder / "a" / "b" / "c", "x");
  EXPECT_EQ(read_file(folder / "a" / "b" / "c"), "x");
}

TEST(AtomicFile, ErrorsNameThePath) {
  const TestFolder folder;
  write_file_atomically(folder / "file", "x");
  fs::create_directory(folder / "folder");
  const auto names = [](const std::string& text, const fs::path& path) {
    return text.find(path.string()) != std::string::npos;
  };
  EXPECT_TRUE(
      names(error_of([&] { write_file_atomically(folder / "folder", "x"); }), folder / "folder"));
  EXPECT_TRUE(names(error_of([&] { write_file_atomically(folder / "file" / "below", "x"); }),
                    folder / "file"));
  EXPECT_TRUE(
      names(error_of([&] { PartialFile(folder / "unwritten").commit(); }), folder / "unwritten"));
  EXPECT_TRUE(names(error_of([&] { read_file(folder / "missing"); }), folder / "missing"));
  EXPECT_TRUE(names(error_of([&] { read_file(folder / "folder"); }), folder / "folder"));
  EXPECT_TRUE(names(error_of([&] { sync_to_disk(folder / "missing"); }), folder / "missing"));
  EXPECT_NE(error_of([] { write_file_atomically("", "x"); }), "");
  EXPECT_EQ(folder.files(), (Names{"file", "folder"}));
}

}  // namespace
}  // namespace slift
