#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"

namespace slift::kernels::cpu {
namespace {

constexpr std::int64_t kTile = 32;    // rows of a and of b whose panels are in the cache together
constexpr std::int64_t kPanel = 256;  // terms added in float32
constexpr std::int64_t kPatch = 4;    // rows of a and of b whose sums are in registers together
constexpr std::int64_t kVectorSize = 16;  // running sums of one pair

// A vector type, since a compiler may not vectorise loops over arrays of running sums: Clang 14
// then reaches 2 GFLOP/s instead of 38. Processors with shorter registers use several for one.
using Lanes __attribute__((vector_size(kVectorSize * sizeof(float)))) = float;
constexpr std::int64_t kVectors = kPanel / kVectorSize;

using Panel = Lanes[kTile][kVectors];
using Totals = double[kTile][kTile];

// Copies `width` columns of `count` rows next to each other: in place, rows a power of two apart
// would all compete for the same cache lines. The rest of the panel is 0 and adds 0 to every sum.
void pack(const float* columns, std::int64_t n, std::int64_t count, std::int64_t width,
          Panel& panel) {
  std::memset(panel, 0, sizeof panel);
  for (std::int64_t r = 0; r < count; ++r) {
    std::memcpy(panel[r], columns + r * n, static_cast<std::size_t>(width) * sizeof(float));
  }
}

float sum_of_lanes(const Lanes& lanes) {
  Lanes x = lanes;
  for (std::int64_t half = kVectorSize / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) x[lane] += x[lane + half];
  }
  return x[0];
}

// Adds the first `vectors` vectors of terms to the totals of kPatch rows of a from row `i` on with
// kPatch rows of b from row `j` on.
void add_patch(const Panel& a, const Panel& b, std::int64_t i, std::int64_t j, std::int64_t vectors,
               Totals& totals) {
  Lanes sums[kPatch][kPatch] = {};
  for (std::int64_t k = 0; k < vectors; ++k) {
    for (std::int64_t p = 0; p < kPatch; ++p) {
      for (std::int64_t q = 0; q < kPatch; ++q) {
        const Lanes difference = a[i + p][k] - b[j + q][k];
        sums[p][q] += difference * difference;
      }
    }
  }
  for (std::int64_t p = 0; p < kPatch; ++p) {
    for (std::int64_t q = 0; q < kPatch; ++q) {
      totals[i + p][j + q] += static_cast<double>(sum_of_lanes(sums[p][q]));
    }
  }
}

// Up to kTile rows of a from row `i` on, with up to kTile rows of b from row `j` on.
void add_tile(const DistanceArgs& args, std::int64_t i, std::int64_t j) {
  const std::int64_t na = std::min(kTile, args.na - i), nb = std::min(kTile, args.nb - j);
  Panel a, b;
  Totals totals = {};
  for (std::int64_t first = 0; first < args.n; first += kPanel) {
    const std::int64_t width = std::min(kPanel, args.n - first);
    pack(args.a + i * args.n + first, args.n, na, width, a);
    pack(args.b + j * args.n + first, args.n, nb, width, b);
    const std::int64_t vectors = (width + kVectorSize - 1) / kVectorSize;
    for (std::int64_t p = 0; p < na; p += kPatch) {
      for (std::int64_t q = 0; q < nb; q += kPatch) add_patch(a, b, p, q, vectors, totals);
    }
  }
  for (std::int64_t p = 0; p < na; ++p) {
    for (std::int64_t q = 0; q < nb; ++q) args.out[(i + p) * args.nb + j + q] += totals[p][q];
  }
}

}  // namespace

void squared_distances(const DistanceArgs& args) {
  for (std::int64_t i = 0; i < args.na; i += kTile) {
    for (std::int64_t j = 0; j < args.nb; j += kTile) add_tile(args, i, j);
  }
}

}  // namespace slift::kernels::cpu
