#include "data/journal.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/atomic_file.h"

namespace slift {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kJournalFormat = "slift-journal";
constexpr int kJournalVersion = 1;

}  // namespace

Journal::Journal(fs::path path, std::string work) : path_(std::move(path)), work_(std::move(work)) {
  std::error_code error;
  if (work_.empty() || !fs::is_regular_file(path_, error)) return;
  const json content = json::parse(read_file(path_), nullptr, /*allow_exceptions=*/false);
  if (content.is_object() && content.value("format", json()) == kJournalFormat &&
      content.value("version", json()) == kJournalVersion &&
      content.value("work", json()) == work_ &&
      content.value("done", json()).is_number_unsigned()) {
    done_ = content.at("done").get<std::int64_t>();
  }
}

void Journal::record(std::int64_t done) {
  if (work_.empty() || done < 0) throw std::logic_error("Journal::record: no work or no progress");
  const json content = {
      {"format", kJournalFormat}, {"version", kJournalVersion}, {"work", work_}, {"done", done}};
  write_file_atomically(path_, content.dump(2) + "\n");
  done_ = done;
}

void Journal::clear() {
  done_ = 0;
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::path unfinished = path_;
  fs::remove(unfinished += ".partial", ignored);  // of a process killed while it wrote
}

}  // namespace slift
