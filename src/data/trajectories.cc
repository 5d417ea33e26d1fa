#include "data/trajectories.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/errors.h"
#include "data/hdf5.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "slift-trajectories";
constexpr std::uint64_t kVersion = 1;
constexpr const char* kStates = "/states";
constexpr const char* kMedia = "/media";

// Chunks hold whole trajectories, at least this many bytes of them: a chunk per 568-byte Duffing
// trajectory would spend more on HDF5's index than on data.
constexpr std::int64_t kMinChunkBytes = 64 << 10;

std::vector<std::int64_t> joined(std::vector<std::int64_t> head,
                                 const std::vector<std::int64_t>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Reads or writes the box [offset, offset + box) of a data set; one of the two pointers is null.
// Missing offsets are 0; offset[0] and box[0] count trajectories.
void transfer(hid_t dataset, std::vector<std::int64_t> offset, const std::vector<std::int64_t>& box,
              float* read_to, const float* write_from, const std::string& path) {
  offset.resize(box.size(), 0);
  const hdf5::Handle file_space = hdf5::select_box(dataset, offset, box);
  const std::vector<hsize_t> dims(box.begin(), box.end());
  const hdf5::Handle memory_space(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  const herr_t result =
      read_to != nullptr
          ? H5Dread(dataset, H5T_NATIVE_FLOAT, memory_space, file_space, H5P_DEFAULT, read_to)
          : H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory_space, file_space, H5P_DEFAULT, write_from);
  require(result >= 0, "{}: cannot {} trajectories {} to {}: {}", path,
          read_to != nullptr ? "read" : "write", offset[0], offset[0] + box[0] - 1,
          hdf5::last_error());
}

// A float32 data set in chunks of `chunk_members` whole trajectories.
hdf5::Handle create_dataset(hid_t file, const char* name, const std::vector<std::int64_t>& shape,
                            std::int64_t chunk_members, const std::string& path) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  std::vector<hsize_t> chunk = dims;
  chunk[0] = static_cast<hsize_t>(chunk_members);
  const hdf5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  const hdf5::Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                           H5Sclose);
  hdf5::Handle dataset(
      H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
      H5Dclose);
  require(dataset.valid(), "{}: cannot create {}: {}", path, name, hdf5::last_error());
  return dataset;
}

hdf5::Handle open_float_dataset(hid_t file, const char* name, const std::string& path) {
  hdf5::Handle dataset = hdf5::open_dataset(file, name, path);
  const hdf5::Handle type(H5Dget_type(dataset), H5Tclose);
  require(H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == sizeof(float),
          "{}: {} must be float32", path, name);
  return dataset;
}

// The names in a JSON list of strings; none if the attribute is missing or of another kind.
std::vector<std::string> read_names(hid_t file, const char* attribute) {
  std::vector<std::string> names;
  const auto list = nlohmann::json::parse(
      hdf5::read_string_attribute(file, attribute).value_or("[]"), nullptr, false);
  if (!list.is_array()) return names;
  for (const auto& name : list) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

std::int64_t TrajectoryInfo::state_size() const { return product(state_shape); }

std::int64_t TrajectoryInfo::media_size() const {
  return media_shape.empty() ? 0 : product(media_shape);
}

std::string TrajectoryInfo::describe_shape() const {
  return fmt::format("{} x {} x {}", members, steps, fmt::join(state_shape, " x "));
}

std::int64_t members_within(const TrajectoryInfo& info, std::int64_t bytes) {
  const std::int64_t one = info.trajectory_size() * static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(bytes / std::max<std::int64_t>(one, 1), 1,
                                  std::max<std::int64_t>(info.members, 1));
}

struct TrajectoryReader::File {
  hdf5::Handle file, states, media;  // media only where there are some
};

TrajectoryReader::TrajectoryReader(const fs::path& path)
    : file_(std::make_unique<File>()), path_(path.string()) {
  const hdf5::Lock lock;
  file_->file = hdf5::open_file(path);
  const hid_t file = file_->file;
  const auto format = hdf5::read_string_attribute(file, "format");
  require(format == kFormat, "{}: not a slift trajectory file; `slift import` makes one", path_);
  const auto version = hdf5::read_integer_attribute(file, "version");
  require(version == kVersion, "{}: format version must be {}, got {}", path_, kVersion,
          version.value_or(0));
  file_->states = open_float_dataset(file, kStates, path_);
  const auto shape = hdf5::dataset_shape(file_->states);
  require(shape.size() == 3 || shape.size() == 5,
          "{}: /states must have rank 3 (members, steps, n) or 5 (members, steps, C, H, W), got {}",
          path_, shape.size());
  require(std::all_of(shape.begin(), shape.end(), [](auto n) { return n > 0; }),
          "{}: /states must not be empty, got {}", path_, fmt::join(shape, " x "));
  info_.members = shape[0];
  info_.steps = shape[1];
  info_.state_shape.assign(shape.begin() + 2, shape.end());
  info_.dt = hdf5::read_double_attribute(file, "dt").value_or(1);
  info_.system = hdf5::read_string_attribute(file, "system").value_or("unknown");
  info_.boundary = hdf5::read_string_attribute(file, "boundary").value_or("none");
  info_.seed = hdf5::read_integer_attribute(file, "seed").value_or(0);
  info_.fields = read_names(file, "fields");
  if (H5Lexists(file, kMedia, H5P_DEFAULT) > 0) {
    file_->media = open_float_dataset(file, kMedia, path_);
    const auto media = hdf5::dataset_shape(file_->media);
    require(media.size() == 4 && media[0] == info_.members && product(media) > 0,
            "{}: /media must be {} x C x H x W, got {}", path_, info_.members,
            fmt::join(media, " x "));
    info_.media_shape.assign(media.begin() + 1, media.end());
    info_.media_fields = read_names(file, "media_fields");
  }
}

TrajectoryReader::~TrajectoryReader() {
  const hdf5::Lock lock;
  file_.reset();
}

TrajectoryReader::TrajectoryReader(TrajectoryReader&&) noexcept = default;

void TrajectoryReader::read(std::int64_t first, std::int64_t count, std::span<float> out) const {
  read_steps(first, count, 0, info_.steps, out);
}

void TrajectoryReader::read_steps(std::int64_t first, std::int64_t count, std::int64_t step,
                                  std::int64_t states, std::span<float> out) const {
  if (first < 0 || count < 0 || first + count > info_.members || step < 0 || states < 0 ||
      step + states > info_.steps ||
      static_cast<std::int64_t>(out.size()) != count * states * info_.state_size()) {
    throw std::logic_error("TrajectoryReader::read: range or buffer does not fit");
  }
  if (count == 0 || states == 0) return;
  transfer(file_->states, {first, step}, joined({count, states}, info_.state_shape), out.data(),
           nullptr, path_);
}

void TrajectoryReader::read_media(std::int64_t first, std::int64_t count,
                                  std::span<float> out) const {
  if (first < 0 || count < 0 || first + count > info_.members || info_.media_shape.empty() ||
      static_cast<std::int64_t>(out.size()) != count * info_.media_size()) {
    throw std::logic_error("TrajectoryReader::read_media: range or buffer does not fit");
  }
  if (count == 0) return;
  transfer(file_->media, {first}, joined({count}, info_.media_shape), out.data(), nullptr, path_);
}

struct TrajectoryWriter::File {
  hdf5::Handle file, states, media;  // media only where there are some
};

TrajectoryWriter::TrajectoryWriter(const fs::path& path, TrajectoryInfo info)
    : info_(std::move(info)), partial_(path), file_(std::make_unique<File>()) {
  const hdf5::Lock lock;
  file_->file = hdf5::create_file(partial_.path());
  const hid_t file = file_->file;
  hdf5::write_attribute(file, "format", std::string(kFormat));
  hdf5::write_attribute(file, "version", kVersion);
  hdf5::write_attribute(file, "system", info_.system);
  hdf5::write_attribute(file, "dt", info_.dt);
  hdf5::write_attribute(file, "boundary", info_.boundary);
  hdf5::write_attribute(file, "seed", info_.seed);
  hdf5::write_attribute(file, "fields", nlohmann::json(info_.fields).dump());
  file_->states =
      create_dataset(file, kStates, joined({info_.members, info_.steps}, info_.state_shape),
                     members_within(info_, kMinChunkBytes), path.string());
  if (!info_.media_shape.empty()) {
    hdf5::write_attribute(file, "media_fields", nlohmann::json(info_.media_fields).dump());
    file_->media =
        create_dataset(file, kMedia, joined({info_.members}, info_.media_shape), 1, path.string());
  }
}

TrajectoryWriter::~TrajectoryWriter() {
  const hdf5::Lock lock;
  file_.reset();
}

void TrajectoryWriter::write(std::int64_t first, std::int64_t count,
                             std::span<const float> states) {
  if (first < 0 || count < 0 || first + count > info_.members ||
      static_cast<std::int64_t>(states.size()) != count * info_.trajectory_size()) {
    throw std::logic_error("TrajectoryWriter::write: range or buffer does not fit");
  }
  if (count == 0) return;
  transfer(file_->states, {first, 0}, joined({count, info_.steps}, info_.state_shape), nullptr,
           states.data(), partial_.final_path().string());
}

void TrajectoryWriter::write_media(std::int64_t first, std::int64_t count,
                                   std::span<const float> media) {
  if (first < 0 || count < 0 || first + count > info_.members || info_.media_shape.empty() ||
      static_cast<std::int64_t>(media.size()) != count * info_.media_size()) {
    throw std::logic_error("TrajectoryWriter::write_media: range or buffer does not fit");
  }
  if (count == 0) return;
  transfer(file_->media, {first}, joined({count}, info_.media_shape), nullptr, media.data(),
           partial_.final_path().string());
}

void TrajectoryWriter::commit() {
  const hdf5::Lock lock;
  const bool flushed = H5Fflush(file_->file, H5F_SCOPE_GLOBAL) >= 0;
  const std::string reason = flushed ? "" : hdf5::last_error();
  const bool closed = file_->states.reset() && file_->media.reset() && file_->file.reset();
  require(flushed && closed, "{}: cannot write: {}", partial_.final_path().string(),
          flushed ? hdf5::last_error() : reason);
  partial_.commit();
}

}  // namespace slift
