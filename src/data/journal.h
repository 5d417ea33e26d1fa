// How far a file that takes long to write has got: a small JSON file beside it (docs/formats.md).
//
// A journal is of one piece of work, named by a text; what another work left behind counts as
// nothing. It is written whole or not at all. Who continues must trust it: make the work durable
// before recording it, and clear() before overwriting what it speaks of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace slift {

class Journal {
 public:
  // Reads what is at `path`, if anything.
  Journal(std::filesystem::path path, std::string work);

  // What was recorded last, by this object or by an earlier one of the same work; 0 if nothing.
  std::int64_t done() const { return done_; }
  void record(std::int64_t done);
  // Forgets everything and removes the file.
  void clear();

 private:
  std::filesystem::path path_;
  std::string work_;
  std::int64_t done_ = 0;
};

}  // namespace slift
