// What tests of pictures share; for *_test.cc only.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <cstring>
#include <string>
#include <vector>

#include "report/picture.h"

namespace slift {

// Decodes with libpng's simplified reader: other code than the encoder uses.
inline Image decode_png(const std::string& bytes) {
  png_image png;
  std::memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()), 0) << png.message;
  png.format = PNG_FORMAT_RGB;
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  EXPECT_NE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr), 0) << png.message;
  std::size_t next = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) {
      for (auto& channel : image.at(x, y)) channel = pixels[next++];
    }
  }
  return image;
}

// How many pixels differ; -1 if the sizes do.
inline int differing_pixels(const Image& a, const Image& b) {
  if (a.width() != b.width() || a.height() != b.height()) return -1;
  int count = 0;
  for (int y = 0; y < a.height(); ++y) {
    for (int x = 0; x < a.width(); ++x) count += a.at(x, y) != b.at(x, y) ? 1 : 0;
  }
  return count;
}

// The `width` x `height` pixels from (x, y) on; it must fit.
inline Image cut_out(const Image& image, int x, int y, int width, int height) {
  Image part(width, height);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      part.at(column, row) = image.at(x + column, y + row);
    }
  }
  return part;
}

// Reads the parts of an APNG file with code of its own; failures are reported to GoogleTest.
struct ApngChunk {
  std::string type, data;

  std::uint32_t number(std::size_t at, std::size_t bytes = 4) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value * 256 + static_cast<unsigned char>(data.at(at + i));
    }
    return value;
  }
};

// CRC-32 of the PNG specification, bit by bit.
inline std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

inline std::vector<ApngChunk> chunks_of(const std::string& file) {
  std::vector<ApngChunk> chunks;
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::size_t at = 8;
  while (at + 12 <= file.size()) {
    const std::size_t size = ApngChunk{"", file.substr(at, 4)}.number(0);
    if (at + 12 + size > file.size()) break;
    chunks.push_back({file.substr(at + 4, 4), file.substr(at + 8, size)});
    EXPECT_EQ((ApngChunk{"", file.substr(at + 8 + size, 4)}.number(0)),
              slow_crc(file.substr(at + 4, 4 + size)))
        << chunks.back().type;
    at += 12 + size;
  }
  EXPECT_EQ(at, file.size()) << "bytes behind the last whole chunk";
  return chunks;
}

// Every frame, put back into a PNG file and decoded.
inline std::vector<Image> frames_of(const std::string& file) {
  const auto four = [](std::uint32_t value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
    return bytes;
  };
  const auto chunk = [&](const std::string& type, const std::string& data) {
    return four(static_cast<std::uint32_t>(data.size())) + type + data +
           four(slow_crc(type + data));
  };
  std::vector<Image> frames;
  std::string header;
  for (const ApngChunk& c : chunks_of(file)) {
    if (c.type == "IHDR") header = c.data;
    if (c.type != "IDAT" && c.type != "fdAT") continue;
    frames.push_back(decode_png("\x89PNG\r\n\x1a\n" + chunk("IHDR", header) +
                                chunk("IDAT", c.type == "IDAT" ? c.data : c.data.substr(4)) +
                                chunk("IEND", "")));
  }
  return frames;
}

}  // namespace slift
