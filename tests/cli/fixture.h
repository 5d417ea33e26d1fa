// A folder with a small Duffing data set, a config and a trained run, made once per test program.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "process.h"

namespace slift::testing {

class CliTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    namespace fs = std::filesystem;
    root_ = fs::temp_directory_path() / ("slift-cli-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    ASSERT_EQ(
        run_slift({"simulate", "duffing", "-m", "64", "--seed", "1", "-o", path("train.h5"), "-q"})
            .exit_code,
        0);
    ASSERT_EQ(
        run_slift({"simulate", "duffing", "-m", "64", "--seed", "2", "-o", path("test.h5"), "-q"})
            .exit_code,
        0);
    write("small.toml", small_config());
    ASSERT_EQ(run_slift({"train", path("small.toml"), "-o", path("run"), "--set",
                         "train.iterations=20", "-q"})
                  .exit_code,
              0);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root_); }

  static std::string path(const std::string& name) { return (root_ / name).string(); }

  static std::string write(const std::string& name, const std::string& content) {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return path(name);
  }

  static std::string small_config() {
    return "[data]\npath = \"" + path("train.h5") +
           "\"\n[lifting]\ndimension = 4\n[net]\nwidth = 32\nlayers = 2\n"
           "[train]\nbatch = 128\niterations = 2000\nlog_every = 20\ncheckpoint_every = 60\n";
  }

  static inline std::filesystem::path root_;
};

}  // namespace slift::testing
