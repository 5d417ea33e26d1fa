// What a run writes while it runs: metrics.jsonl, one JSON object a line, and the same numbers for
// TensorBoard.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "training/event_file.h"

namespace slift {

class RunLog {
 public:
  // Keeps the first `bytes` of an earlier metrics.jsonl: what came after the checkpoint a run is
  // resumed from is dropped, for it will be written again.
  RunLog(const std::filesystem::path& run, std::uint64_t bytes);

  // `line` has the step under "step"; its numbers, nested ones as "a/b", go to TensorBoard.
  void write(const nlohmann::json& line);
  // Makes the lines durable. A checkpoint must not say more bytes() than the disk has.
  void sync();
  std::uint64_t bytes() { return static_cast<std::uint64_t>(lines_.tellp()); }

 private:
  std::filesystem::path path_;
  std::ofstream lines_;
  EventFile events_;
};

}  // namespace slift
