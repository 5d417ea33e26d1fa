#include "kernels/choice_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "core/atomic_file.h"
#include "core/log.h"

namespace slift::kernels {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Held by one program at a time, where the file system can do that.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : file_(open(path.c_str(), O_CREAT | O_RDWR, 0666)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

}  // namespace

ChoiceFile::ChoiceFile(fs::path path) : path_(std::move(path)), choices_(json::object()) {}

// What is known already remains.
void ChoiceFile::add_from_file() {
  if (!fs::exists(path_)) return;
  try {
    json held = json::parse(read_file(path_));
    held.update(choices_);
    choices_ = std::move(held);
  } catch (const std::exception& error) {
    spdlog::warn("{}: not readable: {}", path_.string(), error.what());
  }
}

std::optional<json> ChoiceFile::find(const std::string& name) {
  if (!choices_.contains(name)) add_from_file();
  return choices_.contains(name) ? std::optional<json>(choices_[name]) : std::nullopt;
}

json ChoiceFile::keep(const std::string& name, const json& choice,
                      const std::optional<json>& useless) {
  try {
    fs::create_directories(path_.parent_path());
    const FileLock lock(path_.string() + ".lock");
    choices_.erase(name);
    add_from_file();
    if (!choices_.contains(name) || choices_[name] == useless) {
      choices_[name] = choice;
      write_file_atomically(path_, choices_.dump(1));
    }
  } catch (const std::exception& error) {
    choices_[name] = choice;
    spdlog::debug("{}: not kept: {}", path_.string(), error.what());
  }
  return choices_[name];
}

}  // namespace slift::kernels
