// Named random streams. Every random number in slift is addressed, never drawn in sequence:
// (seed, purpose, index, step, component). A label, a member or a trajectory is therefore the same
// whatever the batch size, chunk, thread count, device or restart.
#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"

namespace slift {

// What the numbers are for; streams of different purposes never overlap. The values are part of
// the meaning of a seed: append, do not renumber.
enum class Purpose : std::uint8_t {
  kTrainingLabel = 1,
  kRolloutLabel = 2,
  kInitialState = 3,
  kSystemNoise = 4,
  kShuffle = 5,
  kWeights = 6,
  kDirections = 7,
  kBootstrap = 8,
  kRankTies = 9,
  kTrainingNoise = 10,
  kTrajectoryLabel = 11,
  kMemberLabel = 12,
  kScoredTrajectories = 13,
};

// One stream of components. `index` below 2^56.
struct Stream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::kSystemNoise;
  std::uint64_t index = 0;
  std::uint32_t step = 0;
};

SLIFT_HD PhiloxBlock stream_block(const Stream& s, std::uint32_t block) {
  const PhiloxBlock counter = {block, s.step, static_cast<std::uint32_t>(s.index),
                               (static_cast<std::uint32_t>(s.purpose) << 24) |
                                   (static_cast<std::uint32_t>(s.index >> 32) & 0x00FFFFFFu)};
  const PhiloxKey key = {static_cast<std::uint32_t>(s.seed),
                         static_cast<std::uint32_t>(s.seed >> 32)};
  return philox4x32_10(counter, key);
}

// The four normals of components 4 * block .. 4 * block + 3.
SLIFT_HD void stream_normals(const Stream& s, std::uint32_t block, float out[4]) {
  const PhiloxBlock x = stream_block(s, block);
  const NormalPair a = philox_normal_pair(x.x0, x.x1);
  const NormalPair b = philox_normal_pair(x.x2, x.x3);
  out[0] = a.first;
  out[1] = a.second;
  out[2] = b.first;
  out[3] = b.second;
}

// Components 0 .. out.size()-1 of the stream.
void fill_normal(const Stream& stream, std::span<float> out);
void fill_uniform(const Stream& stream, std::span<float> out);

// A random permutation of 0 .. size-1 that needs no memory: position -> element, by cycle-walking a
// four-round Feistel network keyed by (seed, index).
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t index, std::uint64_t size);
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  Stream stream_;
  std::uint64_t size_;
  unsigned half_bits_;
};

}  // namespace slift
