// Float64 outputs [batch, state] of a small MLP; what it is stands in mlp_golden.py.
// Generated: /usr/bin/python3 tests/golden/mlp_golden.py > tests/golden/mlp_golden.h
#pragma once

#include <cstdint>

namespace slift::golden {

inline constexpr std::int64_t kMlpBatch = 2;
inline constexpr std::int64_t kMlpWindow = 2;
inline constexpr std::int64_t kMlpState = 3;
inline constexpr std::int64_t kMlpLabel = 2;
inline constexpr std::int64_t kMlpWidth = 5;
inline constexpr std::int64_t kMlpLayers = 2;
inline constexpr double kMlpGelu[2][3] = {
    {-0.9719873618935848, -1.3954531918784832, -0.2197717742616755},
    {-0.9675941018988068, -2.219547007396188, -0.6916935397294154},
};
inline constexpr double kMlpSilu[2][3] = {
    {-1.2409785521827479, -1.6550808782918822, -0.09807369784208453},
    {-1.231220796060581, -2.2563751452268273, -0.4489603456948016},
};

}  // namespace slift::golden
