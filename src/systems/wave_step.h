// The pointwise half of a step of the wave equation, for the CPU and for CUDA; see wave_solver.h.
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace slift {

// The wave number of row `index` of a spectrum with n rows: 0, 1, .., n/2, .., -2, -1.
SLIFT_HD std::int32_t wave_number(std::int32_t index, std::int32_t n) {
  return index <= n / 2 ? index : index - n;
}

// What turns the spectrum of an n x n field into that of its Laplacian, the normalisation of the
// pair of transforms included: -(k_row^2 + k_column^2) / n^2. 0 <= column <= n/2.
SLIFT_HD float laplacian_factor(std::int32_t row, std::int32_t column, std::int32_t n) {
  const std::int32_t k = wave_number(row, n);
  return -static_cast<float>(k * k + column * column) / static_cast<float>(n * n);
}

// v += kick c^2 Lap u, then u += drift v, at one grid point.
SLIFT_HD void kick_and_drift(float kick, float drift, float speed, float laplacian, float& u,
                             float& velocity) {
  velocity += kick * (speed * speed * laplacian);
  u += drift * velocity;
}

}  // namespace slift
