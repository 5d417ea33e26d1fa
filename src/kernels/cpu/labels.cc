#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace slift::kernels::cpu {

void draw_labels(const LabelArgs& args) {
  const auto step = static_cast<std::uint32_t>(args.step ? *args.step : 0);
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::span<float> label(args.out + r * args.dim, static_cast<std::size_t>(args.dim));
    fill_normal({args.seed, args.purpose, static_cast<std::uint64_t>(args.index[r]), step}, label);
    if (args.kind == LabelKind::kSphere) {
      float squares = 0;
      for (const float x : label) squares += x * x;
      const float length = std::sqrt(squares);
      for (float& x : label) x /= length;
    }
  }
}

}  // namespace slift::kernels::cpu
