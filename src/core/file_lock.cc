#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

namespace {

// Whether `path` still names the file that is open.
bool names_open_file(const std::filesystem::path& path, int descriptor) {
  struct stat named = {}, open_file = {};
  return stat(path.c_str(), &named) == 0 && fstat(descriptor, &open_file) == 0 &&
         named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino;
}

}  // namespace

FileLock::FileLock(std::filesystem::path path) : path_(std::move(path)) { take(LOCK_EX); }

FileLock::FileLock(std::filesystem::path path, const std::string& if_taken)
    : path_(std::move(path)) {
  require(take(LOCK_EX | LOCK_NB), "{}", if_taken);
}

bool FileLock::take(int mode) {
  create_parent_folders(path_);
  for (;;) {
    // For writing: NFS grants exclusive locks on no others.
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "{}: cannot open: {}", path_.string(), std::strerror(errno));
    int failed = flock(descriptor_, mode);
    while (failed != 0 && errno == EINTR) failed = flock(descriptor_, mode);
    if (failed != 0 && errno != EWOULDBLOCK) return true;  // no locks here
    // Its last holder may have removed the file between open() and flock().
    if (failed == 0 && names_open_file(path_, descriptor_)) return true;
    close(descriptor_);
    if (failed != 0) return false;
  }
}

FileLock::~FileLock() {
  unlink(path_.c_str());  // while it is held: afterwards it may be another's
  close(descriptor_);
}

}  // namespace slift
