// Scalars for TensorBoard: an event file, which is a sequence of TFRecords, each a serialised
// tensorflow.Event protocol buffer. Only what scalars need is written, by hand: five fields do not
// warrant a schema compiler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slift {

class EventFile {
 public:
  // Creates `folder`/events.out.tfevents.<seconds>.<process>.slift. A resumed run adds a file of
  // its own; TensorBoard joins them by step.
  explicit EventFile(const std::filesystem::path& folder);

  // One event with these (tag, value) scalars. Throws UserError if the disk refuses.
  void write(std::int64_t step, std::span<const std::pair<std::string, double>> scalars);

  const std::filesystem::path& path() const { return path_; }

  // The event files that lie in `folder`.
  static std::vector<std::filesystem::path> all_in(const std::filesystem::path& folder);

 private:
  void write_record(std::string_view data);

  std::filesystem::path path_;
  std::ofstream out_;
};

// CRC-32C (Castagnoli) of `data`, as RFC 3720 defines it.
std::uint32_t crc32c(std::string_view data);

}  // namespace slift
