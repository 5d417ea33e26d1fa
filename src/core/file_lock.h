// Keeps a second process out while one works on a folder or file.
#pragma once

#include <filesystem>
#include <string>

namespace slift {

// Holds an exclusive advisory lock (flock) on a file made for it, which is removed at the end. The
// system lets go of the lock when the process dies, however it dies; the file that then stays keeps
// nobody out.
//
// Where the file system knows no locks (some network ones) nobody is kept out: working without is
// better than not at all.
class FileLock {
 public:
  // Creates `path` and missing parent folders. If another FileLock, of any process, has it: waits,
  // or throws UserError with the message `if_taken`. Lock a file of its own: HDF5 locks those it
  // opens, too.
  explicit FileLock(std::filesystem::path path);
  FileLock(std::filesystem::path path, const std::string& if_taken);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool take(int mode);  // false if another has it

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace slift
