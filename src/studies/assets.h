// Configs that are part of the program, so that it needs no files beside it.
#pragma once

#include <string_view>

namespace slift::assets {

extern const std::string_view duffing_small_toml;  // configs/duffing-small.toml

}  // namespace slift::assets
