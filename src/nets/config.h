// What a network is made of, as the user writes it in [net].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.h"

namespace slift {

struct NetConfig {
  std::string kind = "mlp";

  // Every family.
  std::int64_t window = 1;
  std::string output = "residual";
  std::string activation = "gelu";
  double init_gain = 1.0;

  // mlp
  std::int64_t width = 512;
  std::int64_t layers = 4;

  // unet
  std::vector<std::int64_t> widths = {128, 256, 512};
  std::string padding = "zeros";
  std::int64_t label_width = 512;

  void bind(ConfigSchema& schema);
};

}  // namespace slift
