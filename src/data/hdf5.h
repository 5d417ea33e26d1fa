// A thin RAII layer over HDF5's C interface: handles that close themselves, errors as UserError.
// HDF5 as packaged is not thread-safe: whoever may run beside another thread holds a Lock.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slift::hdf5 {

// Owns one HDF5 identifier.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Closer close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { reset(); }

  operator hid_t() const { return id_; }
  bool valid() const { return id_ >= 0; }
  // Closes now; false if HDF5 reports an error (a flush that failed, for instance).
  bool reset() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Closer close_ = nullptr;
};

// One thread in the library at a time; a thread may hold several.
class Lock {
 public:
  Lock() : guard_(mutex()) {}

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> guard_;
};

// Silences HDF5's own printing; call before anything else.
void initialise();

// What HDF5 says went wrong last, in one line.
std::string last_error();

Handle open_file(const std::filesystem::path& path);  // read-only
Handle create_file(const std::filesystem::path& path);

// The data set `name`; UserError naming `source`, with the data sets that exist, if there is none.
Handle open_dataset(hid_t file, const std::string& name, const std::string& source);
std::vector<std::int64_t> dataset_shape(hid_t dataset);

// Paths of all data sets below the root.
std::vector<std::string> list_datasets(hid_t file);

void write_attribute(hid_t object, const char* name, const std::string& value);
void write_attribute(hid_t object, const char* name, double value);
void write_attribute(hid_t object, const char* name, std::uint64_t value);
std::optional<std::string> read_string_attribute(hid_t object, const char* name);
std::optional<double> read_double_attribute(hid_t object, const char* name);
std::optional<std::uint64_t> read_integer_attribute(hid_t object, const char* name);

// Data space of `shape` with the box [offset, offset + count) selected.
Handle select_box(hid_t dataset, const std::vector<std::int64_t>& offset,
                  const std::vector<std::int64_t>& count);

}  // namespace slift::hdf5
