#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/errors.h"

namespace slift {

namespace fs = std::filesystem;

PartialFile::PartialFile(fs::path final_path) : final_(std::move(final_path)) {
  require(!final_.empty(), "output path is empty");
  std::error_code error;
  require(!fs::is_directory(final_, error), "{}: is a folder, a file is to be written there",
          final_.string());
  create_parent_folders(final_);
  partial_ = final_;
  partial_ += ".partial";
}

PartialFile::~PartialFile() {
  if (kept_) return;
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void PartialFile::commit() {
  sync_to_disk(partial_);
  std::error_code error;
  fs::rename(partial_, final_, error);
  require(!error, "{}: cannot rename: {}", final_.string(), error.message());
  kept_ = true;
  sync_to_disk(final_.has_parent_path() ? final_.parent_path() : fs::path("."));
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  PartialFile file(path);
  {
    std::ofstream out(file.path(), std::ios::binary);
    require(out.good(), "{}: cannot write: {}", path.string(), std::strerror(errno));
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    require(out.good(), "{}: cannot write {} bytes: {}", path.string(), content.size(),
            std::strerror(errno));
  }
  file.commit();
}

void create_parent_folders(const fs::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  require(!error, "{}: cannot create folder: {}", path.parent_path().string(), error.message());
}

void sync_to_disk(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, "{}: cannot open: {}", path.string(), std::strerror(errno));
  const int result = fsync(descriptor);
  const int reason = errno;
  close(descriptor);
  // Some file systems cannot sync folders; that is not an error of the write.
  require(result == 0 || reason == EINVAL, "{}: cannot sync: {}", path.string(),
          std::strerror(reason));
}

void require_not_input(const fs::path& out, const std::vector<fs::path>& inputs) {
  std::error_code ignored;
  // Without absolute() a relative path that is not there yet would stay relative.
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  for (const fs::path& input : inputs) {
    require(input.empty() || whole(out) != whole(input),
            "{}: the output must not replace what it is made from", out.string());
  }
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  require(!fs::is_directory(path, error), "{}: is a folder, a file is expected", path.string());
  std::ifstream in(path, std::ios::binary);
  require(in.good(), "{}: cannot read: {}", path.string(), std::strerror(errno));
  std::ostringstream content;
  content << in.rdbuf();
  return std::move(content).str();
}

}  // namespace slift
