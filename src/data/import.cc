#include "data/import.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "data/array_source.h"
#include "data/hdf5.h"
#include "data/normaliser.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr double kVisibleRounding = 1e-3;  // in standard deviations

class Hdf5Source : public ArraySource {
 public:
  Hdf5Source(const fs::path& path, std::string name) : path_(path.string()) {
    file_ = hdf5::open_file(path);
    if (name.empty()) {
      const auto names = hdf5::list_datasets(file_);
      require(names.size() == 1, "{}: choose one of its {} data sets with --dataset: {}", path_,
              names.size(), fmt::join(names, ", "));
      name = names.front();
    }
    dataset_ = hdf5::open_dataset(file_, name, path_);
    const hdf5::Handle type(H5Dget_type(dataset_), H5Tclose);
    const H5T_class_t kind = H5Tget_class(type);
    require(kind == H5T_FLOAT || kind == H5T_INTEGER, "{}: {} must hold numbers", path_, name);
    shape_ = hdf5::dataset_shape(dataset_);
  }

  void read(std::size_t axis, std::int64_t begin, std::int64_t count,
            std::span<double> out) override {
    std::vector<std::int64_t> offset(shape_.size(), 0), box = shape_;
    offset[axis] = begin, box[axis] = count;
    const hdf5::Handle space = hdf5::select_box(dataset_, offset, box);
    const hsize_t size = out.size();
    const hdf5::Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose);
    require(H5Dread(dataset_, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, out.data()) >= 0,
            "{}: cannot read: {}", path_, hdf5::last_error());
  }

 private:
  std::string path_;
  hdf5::Handle file_, dataset_;
};

std::string default_layout(std::size_t rank, const std::string& source) {
  switch (rank) {
    case 3:
      return "MTN";
    case 4:
      return "MTHW";
    case 5:
      return "MTCHW";
    default:
      fail("{}: an array of rank {} needs --layout, for example TN", source, rank);
  }
}

void check_layout(const std::string& layout, std::size_t rank, const std::string& source) {
  require(layout.size() == rank, "{}: layout {} names {} axes, the array has {}", source, layout,
          layout.size(), rank);
  for (const char axis : layout) {
    require(std::string("MTNCHW").find(axis) != std::string::npos,
            "--layout {}: axes must be letters of MTNCHW, got {}", layout, axis);
    require(std::count(layout.begin(), layout.end(), axis) == 1, "--layout {}: {} stands twice",
            layout, axis);
  }
  const auto has = [&](char axis) { return layout.find(axis) != std::string::npos; };
  require(has('T'), "--layout {}: the time axis T is missing", layout);
  require(has('H') == has('W'), "--layout {}: H and W go together", layout);
  require(!has('N') || (!has('C') && !has('H')), "--layout {}: N does not go with C, H, W", layout);
  require(!has('C') || has('H'), "--layout {}: C goes with H and W; use N for vectors", layout);
}

// What is lost where the numbers of a channel become float32.
class Rounding {
 public:
  void add(double exact, float stored) {
    if (count_ == 0) shift_ = exact;  // keeps the variance exact where it is small beside the mean
    count_ += 1;
    total_ += exact - shift_;
    squares_ += (exact - shift_) * (exact - shift_);
    lost_ += (exact - stored) * (exact - stored);
  }
  // Root mean square, in standard deviations of the numbers; 0 if these differ by no more than the
  // rounding of the float64 they were computed in.
  double share() const {
    const double spread = squares_ - total_ * total_ / count_;
    return spread > 1e-24 * count_ * shift_ * shift_ ? std::sqrt(lost_ / spread) : 0;
  }

 private:
  double count_ = 0, shift_ = 0, total_ = 0, squares_ = 0, lost_ = 0;
};

// One source array seen as trajectories: knows where each of M, T, C/N, H, W lies in it.
class LaidOutSource {
 public:
  LaidOutSource(std::unique_ptr<ArraySource> array, std::string layout, const std::string& source)
      : array_(std::move(array)) {
    const auto& shape = array_->shape();
    if (layout.empty()) layout = default_layout(shape.size(), source);
    check_layout(layout, shape.size(), source);
    if (array_->reversed()) std::reverse(layout.begin(), layout.end());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      require(shape[i] > 0, "{}: the array is empty", source);
      const char axis = layout[i] == 'N' ? 'C' : layout[i];
      extent_[axis] = shape[i];
      if (axis == 'M') member_axis_ = i;
    }
    rounding_.resize(static_cast<std::size_t>(extent('C')));
    layout_ = layout;
    std::replace(layout_.begin(), layout_.end(), 'N', 'C');
  }

  std::int64_t extent(char axis) const {
    const auto found = extent_.find(axis);
    return found == extent_.end() ? 1 : found->second;
  }
  bool is_field() const { return extent_.count('H') != 0; }

  // Of the channel that loses most, over all that was read.
  double rounding() const {
    double worst = 0;
    for (const Rounding& channel : rounding_) worst = std::max(worst, channel.share());
    return worst;
  }

  // Members begin .. begin+count-1 as [count, T, C, H, W].
  void read(std::int64_t begin, std::int64_t count, std::span<float> out) {
    std::vector<double> raw(out.size());
    const bool all = member_axis_ == kNone;
    array_->read(all ? 0 : member_axis_, all ? 0 : begin, all ? array_->shape()[0] : count, raw);
    std::map<char, std::int64_t> stride;
    std::int64_t step = 1;
    for (std::size_t i = layout_.size(); i-- > 0;) {
      stride[layout_[i]] = step;
      step *= i == member_axis_ ? count : array_->shape()[i];
    }
    float* to = out.data();
    for (std::int64_t m = 0; m < count; ++m)
      for (std::int64_t t = 0; t < extent('T'); ++t)
        for (std::int64_t c = 0; c < extent('C'); ++c)
          for (std::int64_t h = 0; h < extent('H'); ++h)
            for (std::int64_t w = 0; w < extent('W'); ++w) {
              const double exact =
                  raw[static_cast<std::size_t>(m * stride['M'] + t * stride['T'] + c * stride['C'] +
                                               h * stride['H'] + w * stride['W'])];
              *to = static_cast<float>(exact);
              rounding_[static_cast<std::size_t>(c)].add(exact, *to++);
            }
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::unique_ptr<ArraySource> array_;
  std::string layout_;
  std::map<char, std::int64_t> extent_;
  std::vector<Rounding> rounding_;  // of each channel
  std::size_t member_axis_ = kNone;
};

LaidOutSource open_source(const fs::path& path, const ImportOptions& options) {
  std::error_code error;
  require(fs::exists(path, error), "{}: no such file", path.string());
  auto array = path.extension() == ".npy" ? open_npy(path) : open_hdf5_array(path, options.dataset);
  return LaidOutSource(std::move(array), options.layout, path.string());
}

}  // namespace

std::unique_ptr<ArraySource> open_hdf5_array(const fs::path& path, const std::string& dataset) {
  return std::make_unique<Hdf5Source>(path, dataset);
}

TrajectoryInfo import_trajectories(const std::vector<fs::path>& sources, const fs::path& out,
                                   const ImportOptions& options) {
  require(!sources.empty(), "import: no source files given");
  TrajectoryInfo info;
  info.dt = options.dt;
  info.system = options.system;
  info.boundary = options.boundary;
  info.fields = options.fields;
  for (const fs::path& path : sources) {
    const LaidOutSource source = open_source(path, options);
    const std::int64_t steps = source.extent('T'), channels = source.extent('C');
    const auto state = source.is_field()
                           ? std::vector{channels, source.extent('H'), source.extent('W')}
                           : std::vector{channels};
    if (info.members == 0) info.steps = steps, info.state_shape = state;
    require(steps == info.steps && state == info.state_shape,
            "{}: {} x {} states do not fit the {} x {} of {}", path.string(), steps,
            fmt::join(state, " x "), info.steps, fmt::join(info.state_shape, " x "),
            sources.front().string());
    info.members += source.extent('M');
  }
  require(info.fields.empty() || static_cast<std::int64_t>(info.fields.size()) == info.channels(),
          "--fields: {} names are needed, got {}", info.channels(), info.fields.size());

  TrajectoryWriter writer(out, info);
  Progress progress("import", "traj", info.members);
  const std::int64_t chunk = members_within(info, 32 << 20);
  std::vector<float> buffer;
  std::int64_t written = 0;
  bool warned = false;
  for (const fs::path& path : sources) {
    LaidOutSource source = open_source(path, options);
    for (std::int64_t first = 0; first < source.extent('M'); first += chunk) {
      if (interrupt_requested()) throw Interrupted("import stopped; nothing was written");
      const std::int64_t count = std::min(chunk, source.extent('M') - first);
      buffer.resize(static_cast<std::size_t>(count * info.trajectory_size()));
      source.read(first, count, buffer);
      require_finite(buffer, info, first, path.string());
      writer.write(written, count, buffer);
      written += count;
      progress.update(written);
    }
    if (!warned && source.rounding() > kVisibleRounding) {
      spdlog::warn(
          "{}: stored as float32 the numbers are off by {:.2g} of their standard deviation; "
          "subtract their mean before the import",
          path.string(), source.rounding());
      warned = true;
    }
  }
  writer.commit();
  return info;
}

}  // namespace slift
