#include "benchmarks/flops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace slift {
namespace {

// Parts of a Unet on the finest level; the others are named by their level.
constexpr std::array<std::string_view, 4> kFinest = {"stem", "smooth", "merge", "head"};

// How often the field has been halved where the named convolution writes its output. The middle is
// on the coarsest level.
std::int64_t level_of(const std::string& name, std::int64_t coarsest) {
  const std::string part = name.substr(0, name.find_first_of("._"));
  if (part == "middle") return coarsest;
  if (std::find(kFinest.begin(), kFinest.end(), part) != kFinest.end()) return 0;
  const std::size_t digits = part.find_first_of("0123456789");
  const std::string kind = part.substr(0, digits);
  const bool known = kind == "down" || kind == "up" || kind == "grow" || kind == "shrink";
  if (!known || digits == std::string::npos) {
    throw std::logic_error(fmt::format("FLOP of a network with a part {} are not known", name));
  }
  return std::stoll(part.substr(digits)) + (kind == "shrink" ? 1 : 0);
}

std::int64_t coarsest_level(const Backbone& backbone) {
  std::int64_t coarsest = 0;
  while (backbone.named_parameters().contains(fmt::format("shrink{}.weight", coarsest))) ++coarsest;
  return coarsest;
}

}  // namespace

double flops_per_evaluation(const Backbone& backbone) {
  const std::int64_t coarsest = coarsest_level(backbone);
  double multiply_adds = 0;
  for (const auto& item : backbone.named_parameters()) {
    const Tensor& weight = item.value();
    if (weight.dim() < 2) continue;  // biases and norms
    std::int64_t cells = 1;
    if (weight.dim() == 4) {
      const std::vector<std::int64_t>& state = backbone.shape().state;
      const std::int64_t level = level_of(item.key(), coarsest);
      cells = (state[1] >> level) * (state[2] >> level);
    }
    multiply_adds += static_cast<double>(weight.numel()) * static_cast<double>(cells);
  }
  return 2 * multiply_adds;
}

}  // namespace slift
