// What tests of all folders share; for *_test.cc only.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "core/errors.h"

namespace slift {

// The message of the UserError that `action` throws; empty if it throws none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// A folder for the files of one test.
//
//   TestFolder folder;
//   write_file_atomically(folder / "x", "content");
//   EXPECT_EQ(folder.files(), std::vector<std::string>{"x"});
//
// mkdtemp() makes it, so no two objects share one, in one process or in several; the destructor
// removes it with all it holds. Keep it as a member of a fixture or as a local variable, declared
// before whatever holds files in it open.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "slift-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

  // Names of what lies directly in it, sorted: shows that a failure left nothing behind.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace slift
