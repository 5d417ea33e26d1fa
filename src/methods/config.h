// Which method learns the transitions, as the user writes it in [method] and in the section of each
// method that has settings.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"

namespace slift {

struct LiftingConfig {
  std::int64_t dimension = 16;
  std::string kind = "gaussian";
  std::int64_t persistent = 0;
  double jitter = 0;
};

struct MethodConfig {
  std::string kind = "lifting";
  LiftingConfig lifting;

  void bind(ConfigSchema& schema);
};

}  // namespace slift
