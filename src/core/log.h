// Logging goes to standard error, results to standard output, so that `--json` output stays clean.
#pragma once

#include <spdlog/spdlog.h>

namespace slift {

// Sends spdlog to standard error with a short pattern; `quiet` keeps warnings and errors only.
void init_logging(bool quiet);

}  // namespace slift
