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

int lock_exclusively(int descriptor) {
  int result = 0;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Whether `path` still names the file that is open.
bool names_open_file(const std::filesystem::path& path, int descriptor) {
  struct stat named = {}, open_file = {};
  return stat(path.c_str(), &named) == 0 && fstat(descriptor, &open_file) == 0 &&
         named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino;
}

}  // namespace

FileLock::FileLock(std::filesystem::path path, const std::string& if_taken)
    : path_(std::move(path)) {
  create_parent_folders(path_);
  for (;;) {
    // For writing: NFS grants exclusive locks on no others.
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "{}: cannot open: {}", path_.string(), std::strerror(errno));
    if (lock_exclusively(descriptor_) != 0) {
      if (errno != EWOULDBLOCK) return;  // no locks here
      close(descriptor_);
      fail("{}", if_taken);
    }
    // Its last holder may have removed the file between open() and flock().
    if (names_open_file(path_, descriptor_)) return;
    close(descriptor_);
  }
}

FileLock::~FileLock() {
  unlink(path_.c_str());  // while it is held: afterwards it may be another's
  close(descriptor_);
}

}  // namespace slift
