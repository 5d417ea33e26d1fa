#include "data/trajectories.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "data/hdf5.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "slift-trajectories";
constexpr std::uint64_t kVersion = 1;
constexpr const char* kStates = "/states";
constexpr const char* kMedia = "/media";
constexpr std::int64_t kFloatBytes = sizeof(float);
static_assert(std::endian::native == std::endian::little, "files are little-endian");

std::vector<std::int64_t> joined(std::vector<std::int64_t> head,
                                 const std::vector<std::int64_t>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Reads the box [offset, offset + box) of a data set. Missing offsets are 0; offset[0] and box[0]
// count trajectories.
void read_box(hid_t dataset, std::vector<std::int64_t> offset, const std::vector<std::int64_t>& box,
              float* out, const std::string& path) {
  const hdf5::Lock lock;
  offset.resize(box.size(), 0);
  const hdf5::Handle file_space = hdf5::select_box(dataset, offset, box);
  const std::vector<hsize_t> dims(box.begin(), box.end());
  const hdf5::Handle memory_space(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
  require(H5Dread(dataset, H5T_NATIVE_FLOAT, memory_space, file_space, H5P_DEFAULT, out) >= 0,
          "{}: cannot read trajectories {} to {}: {}", path, offset[0], offset[0] + box[0] - 1,
          hdf5::last_error());
}

// A contiguous float32 data set that has its place in the file from the start. What is never
// written is a hole, which reads as zeros.
void create_dataset(hid_t file, const char* name, const std::vector<std::int64_t>& shape,
                    const std::string& path) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const hdf5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(properties, false);  // equal content makes equal files
  const hdf5::Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                           H5Sclose);
  const hdf5::Handle dataset(
      H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
      H5Dclose);
  require(dataset.valid(), "{}: cannot create {}: {}", path, name, hdf5::last_error());
}

// Where the values of a data set begin in its file.
std::int64_t place_of(hid_t file, const char* name, const std::string& path) {
  const haddr_t place = H5Dget_offset(hdf5::open_dataset(file, name, path));
  require(place != HADDR_UNDEF, "{}: {} has no place in the file", path, name);
  return static_cast<std::int64_t>(place);
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

// A whole number that is `least` where the attribute is missing, and never below.
std::int64_t read_count(hid_t file, const char* attribute, std::int64_t least,
                        const std::string& path) {
  const std::uint64_t value =
      hdf5::read_integer_attribute(file, attribute).value_or(static_cast<std::uint64_t>(least));
  require(value >= static_cast<std::uint64_t>(least) && value < (std::uint64_t{1} << 62),
          "{}: attribute {} must be at least {}, got {}", path, attribute, least, value);
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::int64_t TrajectoryInfo::state_size() const { return product(state_shape); }

std::int64_t TrajectoryInfo::media_size() const {
  return media_shape.empty() ? 0 : product(media_shape);
}

std::string TrajectoryInfo::describe_shape() const {
  return fmt::format("{} x {} x {}", members, steps, fmt::join(state_shape, " x "));
}

std::vector<std::string> TrajectoryInfo::field_names() const {
  std::vector<std::string> names = fields;
  for (std::int64_t c = std::ssize(names); c < channels(); ++c) {
    names.push_back(fmt::format("x{}", c + 1));
  }
  return names;
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
  require(std::isfinite(info_.dt) && info_.dt > 0, "{}: dt must be above 0, got {}", path_,
          info_.dt);
  info_.system = hdf5::read_string_attribute(file, "system").value_or("unknown");
  info_.boundary = hdf5::read_string_attribute(file, "boundary").value_or("none");
  info_.seed = hdf5::read_integer_attribute(file, "seed").value_or(0);
  info_.fields = read_names(file, "fields");
  require(info_.fields.empty() || std::ssize(info_.fields) == info_.channels(),
          "{}: fields must name the {} components or channels, it has {} names", path_,
          info_.channels(), info_.fields.size());
  info_.record = hdf5::read_string_attribute(file, "record").value_or("");
  info_.first_member = read_count(file, "first_member", 0, path_);
  info_.branches = read_count(file, "branches", 1, path_);
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
  read_box(file_->states, {first, step}, joined({count, states}, info_.state_shape), out.data(),
           path_);
}

void TrajectoryReader::read_media(std::int64_t first, std::int64_t count,
                                  std::span<float> out) const {
  if (first < 0 || count < 0 || first + count > info_.members || info_.media_shape.empty() ||
      static_cast<std::int64_t>(out.size()) != count * info_.media_size()) {
    throw std::logic_error("TrajectoryReader::read_media: range or buffer does not fit");
  }
  if (count == 0) return;
  read_box(file_->media, {first}, joined({count}, info_.media_shape), out.data(), path_);
}

TrajectoryWriter::TrajectoryWriter(const fs::path& path, TrajectoryInfo info, std::string work)
    : info_(std::move(info)),
      lock_(path.string() + ".partial.lock",
            fmt::format("{}: another slift is writing this file", path.string())),
      partial_(path),
      journal_(partial_.path().string() + ".journal", std::move(work)) {
  if (!continues_earlier()) {
    journal_.clear();
    create();
  }
  const hdf5::Lock lock;
  const hdf5::Handle file = hdf5::open_file(partial_.path());
  states_at_ = place_of(file, kStates, path.string());
  if (!info_.media_shape.empty()) media_at_ = place_of(file, kMedia, path.string());
  descriptor_ = open(partial_.path().c_str(), O_WRONLY | O_CLOEXEC);
  require(descriptor_ >= 0, "{}: cannot write: {}", path.string(), std::strerror(errno));
}

TrajectoryWriter::~TrajectoryWriter() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!kept_) journal_.clear();
}

bool TrajectoryWriter::continues_earlier() const {
  std::error_code error;
  if (journal_.done() == 0 || !fs::exists(partial_.path(), error)) return false;
  try {
    return TrajectoryReader(partial_.path()).info() == info_;
  } catch (const UserError&) {
    return false;
  }
}

void TrajectoryWriter::create() const {
  const std::string name = partial_.final_path().string();
  const hdf5::Lock lock;
  hdf5::Handle file = hdf5::create_file(partial_.path());
  hdf5::write_attribute(file, "format", std::string(kFormat));
  hdf5::write_attribute(file, "version", kVersion);
  hdf5::write_attribute(file, "system", info_.system);
  hdf5::write_attribute(file, "dt", info_.dt);
  hdf5::write_attribute(file, "boundary", info_.boundary);
  hdf5::write_attribute(file, "seed", info_.seed);
  hdf5::write_attribute(file, "fields", nlohmann::json(info_.fields).dump());
  if (!info_.record.empty()) hdf5::write_attribute(file, "record", info_.record);
  const auto write_count = [&](const char* attribute, std::int64_t value, std::int64_t usual) {
    if (value == usual) return;
    hdf5::write_attribute(file, attribute, static_cast<std::uint64_t>(value));
  };
  write_count("first_member", info_.first_member, 0);
  write_count("branches", info_.branches, 1);
  create_dataset(file, kStates, joined({info_.members, info_.steps}, info_.state_shape), name);
  if (!info_.media_shape.empty()) {
    hdf5::write_attribute(file, "media_fields", nlohmann::json(info_.media_fields).dump());
    create_dataset(file, kMedia, joined({info_.members}, info_.media_shape), name);
  }
  const bool flushed = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0;
  const std::string reason = flushed ? "" : hdf5::last_error();
  require(file.reset() && flushed, "{}: cannot write: {}", name,
          flushed ? hdf5::last_error() : reason);
}

void TrajectoryWriter::write(std::int64_t first, std::int64_t count,
                             std::span<const float> states) {
  write_steps(first, count, 0, info_.steps, states);
}

void TrajectoryWriter::write_steps(std::int64_t first, std::int64_t count, std::int64_t step,
                                   std::int64_t steps, std::span<const float> states) {
  if (first < 0 || count < 0 || first + count > info_.members || step < 0 || steps < 0 ||
      step + steps > info_.steps ||
      static_cast<std::int64_t>(states.size()) != count * steps * info_.state_size()) {
    throw std::logic_error("TrajectoryWriter::write: range or buffer does not fit");
  }
  const auto place = [&](std::int64_t member) {
    return states_at_ + (member * info_.steps + step) * info_.state_size() * kFloatBytes;
  };
  if (steps == info_.steps) return write_at(place(first), states, first, count);
  const auto run = static_cast<std::size_t>(steps * info_.state_size());
  for (std::int64_t i = 0; i < count; ++i) {
    write_at(place(first + i), states.subspan(static_cast<std::size_t>(i) * run, run), first + i,
             1);
  }
}

void TrajectoryWriter::write_media(std::int64_t first, std::int64_t count,
                                   std::span<const float> media) {
  if (first < 0 || count < 0 || first + count > info_.members || info_.media_shape.empty() ||
      static_cast<std::int64_t>(media.size()) != count * info_.media_size()) {
    throw std::logic_error("TrajectoryWriter::write_media: range or buffer does not fit");
  }
  write_at(media_at_ + first * info_.media_size() * kFloatBytes, media, first, count);
}

void TrajectoryWriter::write_at(std::int64_t place, std::span<const float> values,
                                std::int64_t first, std::int64_t count) {
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  std::size_t left = values.size_bytes();
  while (left > 0) {
    const ssize_t written = pwrite(descriptor_, bytes, left, place);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "{}: cannot write trajectories {} to {}: {}",
            partial_.final_path().string(), first, first + count - 1, std::strerror(errno));
    bytes += written;
    place += written;
    left -= static_cast<std::size_t>(written);
  }
}

void TrajectoryWriter::record(std::int64_t members) {
  sync_to_disk(partial_.path());
  journal_.record(members);
}

void TrajectoryWriter::keep() {
  partial_.keep();
  kept_ = true;
}

void TrajectoryWriter::commit() {
  const int result = close(std::exchange(descriptor_, -1));
  require(result == 0, "{}: cannot write: {}", partial_.final_path().string(),
          std::strerror(errno));
  partial_.commit();
}

}  // namespace slift
