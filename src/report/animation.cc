#include "report/animation.h"

#include <zlib.h>

#include <stdexcept>
#include <string_view>

namespace slift {

namespace {

constexpr std::size_t kSignatureBytes = 8;

void append_u16(std::string& bytes, std::uint32_t value) {
  for (const int shift : {8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
}

void append_u32(std::string& bytes, std::uint32_t value) {
  append_u16(bytes, value >> 16);
  append_u16(bytes, value & 0xffff);
}

// Length, type, data and a checksum over type and data: what all of PNG is made of.
void append_chunk(std::string& bytes, std::string_view type, std::string_view data) {
  append_u32(bytes, static_cast<std::uint32_t>(data.size()));
  const std::size_t covered = bytes.size();
  bytes += type;
  bytes += data;
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + covered),
                              static_cast<uInt>(bytes.size() - covered));
  append_u32(bytes, static_cast<std::uint32_t>(checksum));
}

// What a frame keeps of the PNG file that libpng made of it.
struct PngParts {
  std::string_view signature, header;  // views into the file
  std::string pixels;                  // the compressed stream, of all IDAT chunks
};

PngParts parts_of(std::string_view png) {
  PngParts parts;
  parts.signature = png.substr(0, kSignatureBytes);
  for (std::size_t at = kSignatureBytes; at < png.size();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      size = size << 8 | static_cast<unsigned char>(png[at + i]);
    }
    const std::string_view type = png.substr(at + 4, 4), data = png.substr(at + 8, size);
    if (type == "IHDR") parts.header = data;
    if (type == "IDAT") parts.pixels += data;
    at += 12 + size;
  }
  return parts;
}

std::string animation_control(std::int64_t frames) {
  std::string data;
  append_u32(data, static_cast<std::uint32_t>(frames));
  append_u32(data, 0);  // plays: 0 is forever
  return data;
}

// A frame that replaces the whole picture.
std::string frame_control(std::uint32_t sequence, const Image& image, int frames_per_second) {
  std::string data;
  append_u32(data, sequence);
  append_u32(data, static_cast<std::uint32_t>(image.width()));
  append_u32(data, static_cast<std::uint32_t>(image.height()));
  append_u32(data, 0);  // x offset
  append_u32(data, 0);  // y offset
  append_u16(data, 1);  // shown for 1 / frames_per_second seconds
  append_u16(data, static_cast<std::uint32_t>(frames_per_second));
  data += '\0';  // afterwards: leave it
  data += '\0';  // blending: overwrite
  return data;
}

}  // namespace

std::string encode_apng(std::int64_t frames, const std::function<Image(std::int64_t)>& draw,
                        int frames_per_second) {
  if (frames < 1 || frames > INT32_MAX || frames_per_second < 1 || frames_per_second > 0xffff) {
    throw std::invalid_argument("encode_apng: frames and frames_per_second must be positive");
  }
  std::string bytes, header;
  std::uint32_t sequence = 0;  // counts fcTL and fdAT chunks together
  for (std::int64_t i = 0; i < frames; ++i) {
    const Image image = draw(i);
    const std::string png = encode_png(image);
    const PngParts parts = parts_of(png);
    if (i == 0) {
      header = parts.header;
      bytes = parts.signature;
      append_chunk(bytes, "IHDR", header);
      append_chunk(bytes, "acTL", animation_control(frames));
    } else if (parts.header != header) {
      throw std::invalid_argument("encode_apng: frames must have one size");
    }
    append_chunk(bytes, "fcTL", frame_control(sequence++, image, frames_per_second));
    if (i == 0) {
      append_chunk(bytes, "IDAT", parts.pixels);
    } else {
      std::string data;
      append_u32(data, sequence++);
      data += parts.pixels;
      append_chunk(bytes, "fdAT", data);
    }
  }
  append_chunk(bytes, "IEND", "");
  return bytes;
}

}  // namespace slift
