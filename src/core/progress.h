// A progress line with rate and remaining time.
//
// On a terminal the line redraws in place ten times a second; elsewhere a plain line is printed
// every few seconds, so that logs stay readable. Writes to standard error. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace slift {

class Progress {
 public:
  // `label` is what is being done ("training"), `unit` what is counted ("it"). Work that starts at
  // `done` (a resumed run) does not count towards the rate.
  Progress(std::string label, std::string unit, std::int64_t total, std::int64_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` follows the rate, e.g. "loss 3.1e-02".
  void update(std::int64_t done, const std::string& note = {});

  // Silences every progress line of the process (`--quiet`).
  static void set_enabled(bool enabled);

 private:
  void draw(bool last);

  std::string label_, unit_, note_;
  std::int64_t total_, first_, done_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

// No progress lines as long as it lives: for work inside other work that has a line of its own.
class QuietProgress {
 public:
  QuietProgress();
  ~QuietProgress();
  QuietProgress(const QuietProgress&) = delete;
  QuietProgress& operator=(const QuietProgress&) = delete;

 private:
  bool before_;
};

// 75 -> "1:15", 3700 -> "1:01:40".
std::string format_duration(double seconds);

}  // namespace slift
