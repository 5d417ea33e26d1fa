#include "data/hdf5.h"

#include <algorithm>
#include <cstring>

#include "core/errors.h"

namespace slift::hdf5 {

namespace fs = std::filesystem;

namespace {

std::vector<hsize_t> to_hsize(const std::vector<std::int64_t>& v) { return {v.begin(), v.end()}; }

Handle create_attribute(hid_t object, const char* name, hid_t type) {
  Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Handle attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  require(attribute.valid(), "cannot write attribute {}: {}", name, last_error());
  return attribute;
}

Handle open_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return {};
  return Handle(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
}

template <typename T>
void write_number(hid_t object, const char* name, hid_t type, T value) {
  const Handle attribute = create_attribute(object, name, type);
  require(H5Awrite(attribute, type, &value) >= 0, "cannot write attribute {}: {}", name,
          last_error());
}

template <typename T>
std::optional<T> read_number(hid_t object, const char* name, hid_t type) {
  const Handle attribute = open_attribute(object, name);
  if (!attribute.valid()) return std::nullopt;
  T value{};
  if (H5Aread(attribute, type, &value) < 0) return std::nullopt;
  return value;
}

}  // namespace

std::recursive_mutex& Lock::mutex() {
  static std::recursive_mutex one;
  return one;
}

void initialise() {
  // Files are closed where their errors can be reported, not in an exit handler.
  static const bool once = [] {
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)once;
}

std::string last_error() {
  std::string text = "unknown HDF5 error";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
        if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
        return 0;
      },
      &text);
  H5Eclear2(H5E_DEFAULT);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Handle open_file(const fs::path& path) {
  initialise();
  std::error_code error;
  require(fs::exists(path, error), "{}: no such file", path.string());
  require(!fs::is_directory(path, error), "{}: is a folder, an HDF5 file is expected",
          path.string());
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  require(file.valid(), "{}: not a readable HDF5 file: {}", path.string(), last_error());
  return file;
}

Handle create_file(const fs::path& path) {
  initialise();
  // The format of HDF5 1.8: attributes may be longer than 64 KiB, as those of records of long
  // vectors are.
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
  // It would also note when the file was made: equal content must make equal bytes.
  Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose);
  require(file.valid(), "{}: cannot create: {}", path.string(), last_error());
  return file;
}

namespace {

herr_t add_if_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) {
    static_cast<std::vector<std::string>*>(names)->push_back(std::string("/") + name);
  }
  return 0;
}

}  // namespace

std::vector<std::string> list_datasets(hid_t file) {
  std::vector<std::string> names;
#if H5_VERSION_GE(1, 12, 0)
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, add_if_dataset, &names, H5O_INFO_BASIC);
#else
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, add_if_dataset, &names);
#endif
  return names;
}

Handle open_dataset(hid_t file, const std::string& name, const std::string& source) {
  Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.valid()) {
    H5Eclear2(H5E_DEFAULT);
    const auto names = list_datasets(file);
    fail("{}: no data set {}; the file has {}", source, name,
         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return dataset;
}

std::vector<std::int64_t> dataset_shape(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(rank, 0)));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  return {dims.begin(), dims.end()};
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, std::max<std::size_t>(1, value.size()));
  H5Tset_cset(type, H5T_CSET_UTF8);
  const Handle attribute = create_attribute(object, name, type);
  require(H5Awrite(attribute, type, value.c_str()) >= 0, "cannot write attribute {}: {}", name,
          last_error());
}

void write_attribute(hid_t object, const char* name, double value) {
  write_number(object, name, H5T_NATIVE_DOUBLE, value);
}

void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  write_number(object, name, H5T_NATIVE_UINT64, value);
}

std::optional<std::string> read_string_attribute(hid_t object, const char* name) {
  const Handle attribute = open_attribute(object, name);
  if (!attribute.valid()) return std::nullopt;
  const Handle type(H5Aget_type(attribute), H5Tclose);
  if (H5Tget_class(type) != H5T_STRING) return std::nullopt;
  if (H5Tis_variable_str(type) > 0) {  // as h5py writes them
    char* text = nullptr;
    if (H5Aread(attribute, type, &text) < 0 || text == nullptr) return std::nullopt;
    std::string value = text;
    H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type), '\0');
  if (H5Aread(attribute, type, value.data()) < 0) return std::nullopt;
  value.resize(std::strlen(value.c_str()));
  return value;
}

std::optional<double> read_double_attribute(hid_t object, const char* name) {
  return read_number<double>(object, name, H5T_NATIVE_DOUBLE);
}

std::optional<std::uint64_t> read_integer_attribute(hid_t object, const char* name) {
  return read_number<std::uint64_t>(object, name, H5T_NATIVE_UINT64);
}

Handle select_box(hid_t dataset, const std::vector<std::int64_t>& offset,
                  const std::vector<std::int64_t>& count) {
  Handle space(H5Dget_space(dataset), H5Sclose);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, to_hsize(offset).data(), nullptr,
                      to_hsize(count).data(), nullptr);
  return space;
}

}  // namespace slift::hdf5
