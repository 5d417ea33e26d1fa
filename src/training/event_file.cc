#include "training/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "core/errors.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEventPrefix = "events.out.tfevents.";

// Protocol buffer fields (https://protobuf.dev/programming-guides/encoding): a key, which is the
// field number and the wire type, then the value. All numbers are little-endian.
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename T>
void append_raw(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
  to += static_cast<char>(value);
}

void append_key(std::string& to, unsigned field, Wire wire) {
  append_varint(to, (static_cast<std::uint64_t>(field) << 3) | static_cast<std::uint64_t>(wire));
}

void append_bytes(std::string& to, unsigned field, std::string_view value) {
  append_key(to, field, Wire::kBytes);
  append_varint(to, value.size());
  to += value;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary =
// 5 }
std::string event_start() {
  std::string event;
  append_key(event, 1, Wire::kFixed64);
  append_raw(event, now());
  return event;
}

// TensorFlow's mask, so that a CRC of data that hold CRCs stays meaningful.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
      t[i] = crc;
    }
    return t;
  }();
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::vector<fs::path> EventFile::all_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kEventPrefix)) found.push_back(entry.path());
  }
  return found;
}

EventFile::EventFile(const fs::path& folder)
    : path_(folder / fmt::format("{}{:010}.{}.slift", kEventPrefix,
                                 static_cast<std::int64_t>(now()), getpid())),
      out_(path_, std::ios::binary | std::ios::app) {
  std::string event = event_start();
  append_bytes(event, 3, "brain.Event:2");
  write_record(event);
}

void EventFile::write(std::int64_t step, std::span<const std::pair<std::string, double>> scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;  // message Value { string tag = 1; float simple_value = 2 }
    append_bytes(value, 1, tag);
    append_key(value, 2, Wire::kFixed32);
    append_raw(value, static_cast<float>(number));
    append_bytes(summary, 1, value);
  }
  std::string event = event_start();
  append_key(event, 2, Wire::kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  write_record(event);
}

// A TFRecord: length, its masked CRC, data, their masked CRC.
void EventFile::write_record(std::string_view data) {
  std::string length, record;
  append_raw(length, static_cast<std::uint64_t>(data.size()));
  record = length;
  append_raw(record, masked(crc32c(length)));
  record += data;
  append_raw(record, masked(crc32c(data)));
  out_.write(record.data(), static_cast<std::streamsize>(record.size()));
  out_.flush();
  require(out_.good(), "{}: cannot write", path_.string());
}

}  // namespace slift
