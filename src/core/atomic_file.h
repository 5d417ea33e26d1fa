// Files that appear whole or not at all: written aside, synced, renamed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slift {

// Owns the path `final.partial` while something is written there. commit() syncs it and renames it
// over `final`; without commit() the destructor removes it, so a failure leaves nothing behind,
// unless keep() said that somebody will go on with it.
class PartialFile {
 public:
  // Creates missing parent folders. Throws UserError when that is impossible.
  explicit PartialFile(std::filesystem::path final_path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::filesystem::path& path() const { return partial_; }
  const std::filesystem::path& final_path() const { return final_; }
  void commit();
  void keep() { kept_ = true; }

 private:
  std::filesystem::path final_, partial_;
  bool kept_ = false;  // or renamed
};

// Writes `content` to `path` through a PartialFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Creates the folders `path` lies in where they are missing. Throws UserError when that is
// impossible.
void create_parent_folders(const std::filesystem::path& path);

// Syncs a file's or folder's content to disk. Throws UserError on failure (a full disk shows here).
void sync_to_disk(const std::filesystem::path& path);

// Throws UserError if `out`, about to be written, is one of `inputs` under whatever name: to be
// called before long work. Empty inputs are options that were not given.
void require_not_input(const std::filesystem::path& out,
                       const std::vector<std::filesystem::path>& inputs);

// Reads a whole (small) file. Throws UserError naming the path.
std::string read_file(const std::filesystem::path& path);

}  // namespace slift
