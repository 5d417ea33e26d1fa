// What the tests of networks share; for *_test.cc only.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "tensor/torch_compat.h"

namespace slift {

// Standard normals of the given shape, others for another index.
inline Tensor normals(const std::vector<std::int64_t>& shape, std::uint64_t index) {
  Tensor values = at::empty(shape, at::kFloat);
  fill_normal({3, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

inline double root_mean_square(const Tensor& x) { return x.square().mean().sqrt().item<double>(); }

}  // namespace slift
