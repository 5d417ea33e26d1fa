// The one exception type for mistakes a user can make: bad files, bad configs, bad flags.
//
// The message names the file or field, the rule and the value, and fits on one line. The program
// prints it and exits with 2; every other exception is a failure of slift or the machine (exit 1).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>  // fmt::join, from fmt 11 on

#include <stdexcept>
#include <string>
#include <utility>

namespace slift {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws UserError with the formatted message unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(format, std::forward<Args>(args)...);
}

}  // namespace slift
