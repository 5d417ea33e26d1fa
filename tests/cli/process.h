// Runs the slift program as a user would and looks at what came of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace slift::testing {

struct ProcessOptions {
  // Send `signal` after this time, or as soon as this holds, if the process still runs.
  int kill_after_ms = -1;
  std::function<bool()> kill_when = {};
  int signal = 9;
  bool without_root_rights = false;  // when root: no right to read what file modes forbid
  std::string small_disk;            // mount a 256 KiB tmpfs on this folder, for the process only
  std::int64_t file_size_limit = 0;  // bytes a file may grow to, 0: no limit
  std::string output;                // standard output goes there, and is not looked at
  std::vector<std::string> environment = {};  // NAME=value, on top of the test's own
};

struct ProcessResult {
  int exit_code = -1;  // -1 if killed by a signal
  std::string out, err;
  std::int64_t peak_resident_kib = 0;
  double seconds = 0;
  bool small_disk_mounted = false;
};

// `arguments` follow the program's name.
ProcessResult run_slift(const std::vector<std::string>& arguments,
                        const ProcessOptions& options = {});

}  // namespace slift::testing
