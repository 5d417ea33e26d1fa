// The instructions of the header of that name (src/kernels/cuda), for emulator.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace slift::kernels::cuda {

inline std::uint32_t shared_address(const void* p) { return emulated::shared_address(p); }

inline float fast_tanh(float x) { return std::tanh(x); }

template <bool kKeep>
void start_copy(const void* from, uint4* to, bool wanted) {
  const auto copy = [=] { *to = wanted ? *static_cast<const uint4*>(from) : uint4{}; };
  emulated::begin(emulated::Beside::kCopies, copy, to, sizeof *to);
}
inline void close_copies() { emulated::close_group(emulated::Beside::kCopies); }
template <int kOpen>
void await_copies() {
  emulated::await_groups(emulated::Beside::kCopies, kOpen);
}

// Of two bfloat16 in a word.
inline float half_of(std::uint32_t word, unsigned which) {
  return __uint_as_float(which == 0 ? word << 16 : word & 0xffff0000u);
}

inline void multiply_add(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                         unsigned b0, unsigned b1) {
  constexpr unsigned kWords = 6;
  const std::uint32_t mine[kWords] = {a0, a1, a2, a3, b0, b1};
  std::uint32_t all[emulated::kWarp][kWords];
  emulated::exchange(mine, kWords, all[0]);
  const unsigned g = emulated::place().lane / 4, q = emulated::place().lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned lower = i / 2, column = 2 * q + i % 2;
    // Word k / 2 of a row is the first or second of lane k / 2 % 4 of its four.
    for (unsigned k = 0; k < 16; ++k) {
      const std::uint32_t* const of_a = all[4 * g + k / 2 % 4];
      const std::uint32_t* const of_b = all[4 * column + k / 2 % 4];
      sums[i] += half_of(of_a[lower + 2 * (k / 8)], k % 2) * half_of(of_b[4 + k / 8], k % 2);
    }
  }
}

class Barrier {
 public:
  void init(unsigned arrivals) { emulated::init(counter_, arrivals); }
  void arrive() { emulated::arrive(counter_, 0); }
  void arrive_and_expect(unsigned bytes) {
    emulated::arrive(counter_, static_cast<std::int32_t>(bytes));
  }
  void bring(std::size_t bytes) { emulated::bring(counter_, static_cast<std::int32_t>(bytes)); }
  void wait(unsigned phase) const { emulated::wait(counter_, phase); }
  void wait_for_cluster(unsigned phase) const { wait(phase); }

 private:
  emulated::Counter counter_;
};

inline void publish_barriers() { emulated::publish(); }
inline void publish_to_copies() {}
inline void prefetch(const CUtensorMap&) {}

// Where the hardware puts the bytes of `address`: rows of 128 bytes have their eight parts in
// another order each.
inline void* swizzled(std::uint32_t address) {
  return emulated::pointer_to(address ^ (address >> 3 & 0x70));
}

// Calls body(number in shared memory, number of the tensor, or null outside it) for all of the box
// at those coordinates, and returns how many there are.
template <typename Body>
std::size_t for_each_of_box(const void* shared, const CUtensorMap& map,
                            std::initializer_list<int> coordinates, const Body& body) {
  const std::uint32_t first = shared_address(shared);
  std::size_t count = 1;
  for (unsigned d = 0; d < map.rank; ++d) count *= (map.box[d] - 1) / map.steps[d] + 1;
  for (std::size_t e = 0; e < count; ++e) {
    std::size_t left = e;
    std::byte* there = map.data;
    for (unsigned d = 0; d < map.rank; ++d) {
      const std::size_t length = (map.box[d] - 1) / map.steps[d] + 1;
      const std::int64_t at =
          coordinates.begin()[d] + static_cast<std::int64_t>(left % length * map.steps[d]);
      left /= length;
      if (at < 0 || at >= static_cast<std::int64_t>(map.sizes[d])) there = nullptr;
      const auto stride = static_cast<std::int64_t>(d == 0 ? 2 : map.strides[d - 1]);
      if (there != nullptr) there += at * stride;
    }
    body(static_cast<std::uint16_t*>(swizzled(first + static_cast<std::uint32_t>(2 * e))),
         reinterpret_cast<std::uint16_t*>(there));
  }
  return count;
}

inline void load_box(void* to, const CUtensorMap& map, Barrier& barrier, int c, int x, int y,
                     int n) {
  const std::size_t count =
      for_each_of_box(to, map, {c, x, y, n}, [](std::uint16_t* here, const std::uint16_t* there) {
        *here = there == nullptr ? std::uint16_t{0} : *there;
      });
  barrier.bring(2 * count);
}

inline void store_box(const CUtensorMap& map, const void* from, int c, int x, int z, int y, int n) {
  emulated::begin(emulated::Beside::kStores, [=, &map] {
    for_each_of_box(from, map, {c, x, z, y, n},
                    [](const std::uint16_t* here, std::uint16_t* there) {
                      if (there != nullptr) *there = *here;
                    });
  });
}
inline void wait_until_stores_have_read() {
  emulated::close_group(emulated::Beside::kStores);
  emulated::await_groups(emulated::Beside::kStores, 0);
}

// Calls body(word of a matrix, the lane's word of it) for four matrices.
template <typename Words, typename Body>
void for_each_matrix(std::uint32_t address, Words& m, const Body& body) {
  std::uint32_t rows[emulated::kWarp];
  emulated::exchange(&address, 1, rows);
  const unsigned lane = emulated::place().lane;
  for (unsigned k = 0; k < 4; ++k) {
    void* const word = emulated::pointer_to(rows[8 * k + lane / 4] + 4 * (lane % 4));
    body(*static_cast<std::uint32_t*>(word), m[k]);
  }
}
inline void load_matrices(std::uint32_t address, std::uint32_t (&m)[4]) {
  for_each_matrix(address, m, [](std::uint32_t from, std::uint32_t& to) { to = from; });
}
inline void store_matrices(std::uint32_t address, const std::uint32_t (&m)[4]) {
  for_each_matrix(address, m, [](std::uint32_t& to, std::uint32_t from) { to = from; });
}

inline void arrive_at_cluster() { emulated::arrive_at_cluster(); }
inline void wait_for_cluster() { emulated::wait_for_cluster(); }
inline unsigned rank_in_cluster() { return emulated::place().rank; }

template <typename Numbers>
void send_to_block(unsigned rank, std::uint32_t address, const Barrier& barrier, Numbers v) {
  *static_cast<Numbers*>(emulated::in_block(rank, address)) = v;
  static_cast<Barrier*>(emulated::in_block(rank, shared_address(&barrier)))->bring(sizeof v);
}

// The address in units of 16 bytes in the lower half, as callers add to it; above it stride and
// next.
inline std::uint64_t matrix_at(std::uint32_t address, std::uint32_t stride,
                               std::uint32_t next = 16) {
  return static_cast<std::uint64_t>(stride >> 4) << 48 |
         static_cast<std::uint64_t>(next >> 4) << 32 | address >> 4;
}

// The number in column k of a row of such a matrix; of a transposed one, in row k of its column.
inline float number_of(std::uint64_t matrix, unsigned row, unsigned k, bool transposed) {
  const auto stride = static_cast<std::uint32_t>(matrix >> 48) << 4;
  const auto next = static_cast<std::uint32_t>(matrix >> 32 & 0xffff) << 4;
  const auto first = static_cast<std::uint32_t>(matrix) << 4;
  const std::uint32_t at = transposed
                               ? k / 8 * stride + k % 8 * 128 + row % 64 * 2 + row / 64 * next
                               : row / 8 * stride + row % 8 * 128 + k * 2;
  return __uint_as_float(std::uint32_t{*static_cast<const std::uint16_t*>(swizzled(first + at))}
                         << 16);
}

// Each thread computes its own sums, when it waits for them; who waits knows that the others of the
// warp have theirs.
inline void begin_products() {}
inline void commit_products() { emulated::close_group(emulated::Beside::kProducts); }
template <int kPending>
void wait_for_products() {
  emulated::await_groups(emulated::Beside::kProducts, kPending);
  emulated::meet_warp();
}

template <bool kTransposed, std::size_t kCount>
void multiply(float (&d)[kCount], std::uint64_t a, std::uint64_t b, bool add) {
  emulated::begin(emulated::Beside::kProducts, [&d, a, b, add] {
    const unsigned lane = emulated::place().lane, warp = threadIdx.x / emulated::kWarp % 4;
    float rows[2][16];
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned k = 0; k < 16; ++k) {
        rows[h][k] = number_of(a, 16 * warp + 8 * h + lane / 4, k, false);
      }
    }
    for (unsigned e = 0; e < kCount; ++e) {
      if (!add) d[e] = 0;
      const unsigned column = e / 4 * 8 + lane % 4 * 2 + e % 2;
      for (unsigned k = 0; k < 16; ++k) {
        d[e] += rows[e / 2 % 2][k] * number_of(b, column, k, kTransposed);
      }
    }
  });
}

}  // namespace slift::kernels::cuda
