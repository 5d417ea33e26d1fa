// What a network is made of, as the user writes it in [net].
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"

namespace slift {

struct NetConfig {
  std::string kind = "mlp";
  std::int64_t window = 1;
  std::string output = "residual";
  std::int64_t width = 512;
  std::int64_t layers = 4;
  std::string activation = "gelu";
  double init_gain = 1.0;

  void bind(ConfigSchema& schema);
};

}  // namespace slift
