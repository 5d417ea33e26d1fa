#include "core/random.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace slift {

void fill_normal(const Stream& stream, std::span<float> out) {
  const std::size_t whole = out.size() / 4;
  for (std::size_t b = 0; b < whole; ++b) {
    stream_normals(stream, static_cast<std::uint32_t>(b), &out[4 * b]);
  }
  if (out.size() % 4 != 0) {
    float last[4];
    stream_normals(stream, static_cast<std::uint32_t>(whole), last);
    std::copy_n(last, out.size() % 4, &out[4 * whole]);
  }
}

void fill_uniform(const Stream& stream, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const PhiloxBlock x = stream_block(stream, static_cast<std::uint32_t>(i / 4));
    const std::uint32_t words[4] = {x.x0, x.x1, x.x2, x.x3};
    for (std::size_t j = i; j < std::min(i + 4, out.size()); ++j) {
      out[j] = philox_uniform(words[j - i]);
    }
  }
}

Permutation::Permutation(std::uint64_t seed, std::uint64_t index, std::uint64_t size)
    : stream_{seed, Purpose::kShuffle, index, 0}, size_(size) {
  assert(size > 0 && size < (std::uint64_t{1} << 62));
  const unsigned bits = static_cast<unsigned>(std::bit_width(size - 1));
  half_bits_ = std::max(1u, (bits + 1) / 2);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  assert(position < size_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      Stream keyed = stream_;
      keyed.step = round;
      const std::uint64_t mixed = stream_block(keyed, static_cast<std::uint32_t>(right)).x0;
      const std::uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace slift
