#include "training/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

TEST(Crc32c, KnownAnswers) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

// A parser of its own: bitwise CRC, any field order, unknown fields skipped.
std::uint32_t bitwise_masked_crc(const std::string& data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <typename T>
T load(const std::string& data, std::size_t at) {
  T value;
  EXPECT_LE(at + sizeof value, data.size());
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

// Field number -> values, each as its raw bytes (varints as 8 bytes).
std::multimap<std::uint64_t, std::string> parse_message(const std::string& data) {
  std::multimap<std::uint64_t, std::string> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < data.size()) {
    const std::uint64_t key = varint();
    std::size_t size = 0;
    switch (key & 7) {
      case 0: {
        const std::uint64_t value = varint();
        fields.emplace(key >> 3, std::string(reinterpret_cast<const char*>(&value), 8));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(key >> 3, data.substr(at, size));
    at += size;
  }
  EXPECT_EQ(at, data.size());
  return fields;
}

std::vector<std::string> parse_records(const std::string& file) {
  std::vector<std::string> records;
  std::size_t at = 0;
  while (at < file.size()) {
    const auto length = load<std::uint64_t>(file, at);
    EXPECT_EQ(load<std::uint32_t>(file, at + 8), bitwise_masked_crc(file.substr(at, 8)));
    const std::string data = file.substr(at + 12, length);
    EXPECT_EQ(load<std::uint32_t>(file, at + 12 + length), bitwise_masked_crc(data));
    records.push_back(data);
    at += 16 + length;
  }
  EXPECT_EQ(at, file.size());
  return records;
}

TEST(EventFile, AnIndependentParserReadsItBack) {
  const TestFolder folder;
  EventFile events(folder.path());
  using Scalars = std::vector<std::pair<std::string, double>>;
  events.write(1, Scalars{{"loss", 0.25}});
  events.write(3000000000, Scalars{{"loss", 1e-3}, {"validation/wct", 12.5}});
  events.write(5, Scalars{{std::string(300, 'x'), std::nan("")}});
  EXPECT_EQ(events.path().filename().string().find("events.out.tfevents."), 0u);

  const auto records = parse_records(read_file(events.path()));
  ASSERT_EQ(records.size(), 4u);
  const auto first = parse_message(records[0]);
  EXPECT_EQ(first.find(3)->second, "brain.Event:2");
  EXPECT_GT(load<double>(first.find(1)->second, 0), 1.6e9);

  const auto scalars = [](const std::string& record) {
    std::map<std::string, float> result;
    const auto summary = parse_message(parse_message(record).find(5)->second);
    for (auto [at, end] = summary.equal_range(1); at != end; ++at) {
      const auto value = parse_message(at->second);
      result[value.find(1)->second] = load<float>(value.find(2)->second, 0);
    }
    return result;
  };
  const auto step = [](const std::string& record) {
    return load<std::int64_t>(parse_message(record).find(2)->second, 0);
  };
  EXPECT_EQ(step(records[1]), 1);
  EXPECT_EQ(scalars(records[1]), (std::map<std::string, float>{{"loss", 0.25f}}));
  EXPECT_EQ(step(records[2]), 3000000000);
  EXPECT_EQ(scalars(records[2]),
            (std::map<std::string, float>{{"loss", 1e-3f}, {"validation/wct", 12.5f}}));
  EXPECT_TRUE(std::isnan(scalars(records[3]).at(std::string(300, 'x'))));
}

TEST(EventFile, MissingFolderIsAnError) {
  const TestFolder folder;
  EXPECT_THROW(EventFile(folder / "none"), UserError);
}

}  // namespace
}  // namespace slift
