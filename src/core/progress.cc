#include "core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace slift {
namespace {

bool g_enabled = true;

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLine{5};
constexpr int kBarWidth = 24;

}  // namespace

std::string format_duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::max(0.0, seconds) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(std::string label, std::string unit, std::int64_t total, std::int64_t done)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      first_(done),
      done_(done),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_) {}

Progress::~Progress() { draw(/*last=*/true); }

void Progress::set_enabled(bool enabled) { g_enabled = enabled; }

QuietProgress::QuietProgress() : before_(g_enabled) { g_enabled = false; }
QuietProgress::~QuietProgress() { g_enabled = before_; }

void Progress::update(std::int64_t done, const std::string& note) {
  done_ = done;
  if (!note.empty()) note_ = note;
  const auto now = std::chrono::steady_clock::now();
  const auto due = terminal_ ? std::chrono::steady_clock::duration(kRedraw)
                             : std::chrono::steady_clock::duration(kPlainLine);
  if (now - drawn_ < due) return;
  drawn_ = now;
  draw(/*last=*/false);
}

void Progress::draw(bool last) {
  if (!g_enabled) return;
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = static_cast<double>(done_ - first_) / std::max(elapsed, 1e-9);
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
  std::string line = fmt::format("{:<10} ", label_);
  if (terminal_) {
    const int filled = std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
    line += fmt::format("[{:=<{}}{: <{}}] ", "", filled, "", kBarWidth - filled);
  }
  line += fmt::format("{:3.0f}% {}/{} {}, {:.4g} {}/s, ", 100 * share, done_, total_, unit_, rate,
                      unit_);
  if (last || rate <= 0) {
    line += fmt::format("took {}", format_duration(elapsed));
  } else {
    line += fmt::format("{} left", format_duration(static_cast<double>(total_ - done_) / rate));
  }
  if (!note_.empty()) line += ", " + note_;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}{}", line, last ? "\n" : "");
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

}  // namespace slift
