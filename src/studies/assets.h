// Files that are part of the program, so that it needs none beside it.
#pragma once

#include <string_view>

namespace slift::assets {

extern const std::string_view duffing_small_toml;  // configs/duffing-small.toml
extern const std::string_view wave_tiny_model;     // models/wave-tiny.safetensors

}  // namespace slift::assets
