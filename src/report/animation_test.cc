#include "report/animation.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "report/testing.h"

namespace slift {
namespace {

// Noise, so that libpng needs several IDAT chunks for a frame.
Image noise(std::uint32_t seed, int width = 90, int height = 70) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (auto& channel : image.at(x, y)) {
        seed = seed * 1664525 + 1013904223;
        channel = static_cast<std::uint8_t>(seed >> 24);
      }
    }
  }
  return image;
}

Image frame(std::int64_t i) { return noise(static_cast<std::uint32_t>(i)); }

TEST(Apng, HasTheChunksOfTheSpecification) {
  const std::vector<ApngChunk> chunks = chunks_of(encode_apng(4, frame, 15));
  std::vector<std::string> types;
  std::uint32_t sequence = 0, controls = 0;
  for (const ApngChunk& chunk : chunks) {
    types.push_back(chunk.type);
    if (chunk.type == "fdAT") {
      EXPECT_EQ(chunk.number(0), sequence++);
    } else if (chunk.type == "fcTL") {
      ++controls;
      ASSERT_EQ(chunk.data.size(), 26U);
      EXPECT_EQ(chunk.number(0), sequence++);
      EXPECT_EQ(chunk.number(4), 90U);
      EXPECT_EQ(chunk.number(8), 70U);
      EXPECT_EQ(chunk.number(12), 0U);  // offsets
      EXPECT_EQ(chunk.number(16), 0U);
      EXPECT_EQ(chunk.number(20, 2), 1U);  // seconds, over
      EXPECT_EQ(chunk.number(22, 2), 15U);
      EXPECT_EQ(chunk.number(24, 2), 0U);  // leave and overwrite
    }
  }
  EXPECT_EQ(types, (std::vector<std::string>{"IHDR", "acTL", "fcTL", "IDAT", "fcTL", "fdAT", "fcTL",
                                             "fdAT", "fcTL", "fdAT", "IEND"}));
  ASSERT_EQ(chunks[1].data.size(), 8U);
  EXPECT_EQ(chunks[1].number(0), controls);
  EXPECT_EQ(chunks[1].number(4), 0U);  // plays forever
}

TEST(Apng, EveryFrameDecodesToWhatWasDrawn) {
  const std::string bytes = encode_apng(3, frame, 10);
  const std::vector<Image> frames = frames_of(bytes);
  ASSERT_EQ(frames.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(differing_pixels(frames[i], frame(static_cast<std::int64_t>(i))), 0) << i;
  }
  EXPECT_EQ(differing_pixels(decode_png(bytes), frame(0)), 0);  // for programs that know only PNG
}

TEST(Apng, RefusesWhatTheFormatCannotHold) {
  EXPECT_THROW(encode_apng(0, frame, 15), std::invalid_argument);
  EXPECT_THROW(encode_apng(2, frame, 0), std::invalid_argument);
  const auto growing = [](std::int64_t i) { return noise(1, 8 + static_cast<int>(i), 8); };
  EXPECT_THROW(encode_apng(2, growing, 15), std::invalid_argument);
}

}  // namespace
}  // namespace slift
