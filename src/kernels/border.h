// Where the cells of a periodic field [height, width] lie in the same field surrounded by one cell
// of its images, [height + 2, width + 2]; both row-major. For the kernels of kernels.h.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace slift::kernels {

// Calls body(place) for each place that shows the cell, in their order: one inside, two or four at
// the edge, up to nine where a side is one cell long.
template <typename Index, typename Body>
SLIFT_HD void for_each_image(Index height, Index width, Index cell, const Body& body) {
  const Index row = cell / width, column = cell % width;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (Index i = row + 1 < height ? row + 1 : 0; i <= height + 1; i += height) {
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (Index j = column + 1 < width ? column + 1 : 0; j <= width + 1; j += width) {
      body(i * (width + 2) + j);
    }
  }
}

}  // namespace slift::kernels
