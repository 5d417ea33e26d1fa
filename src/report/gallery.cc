#include "report/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "data/trajectories.h"
#include "report/verdict.h"

namespace slift {

namespace {

constexpr std::int64_t kMaxPoints = 4096;
constexpr std::int64_t kColumns = 6;
constexpr std::int64_t kBufferFloats = 8 << 20;
constexpr int kCloudScale = 4;     // pixels per bin
constexpr int kFieldPixels = 256;  // small fields are enlarged to about this
constexpr double kMargin = 0.06;   // of a cloud's frame, on each side

using States = std::vector<float>;

// One row to be: a file and how it is called.
struct Source {
  std::string label;
  TrajectoryReader reader;

  bool has(std::int64_t step) const { return step < reader.info().steps; }
};

std::vector<Source> open_sources(const std::vector<RunData>& runs) {
  std::vector<Source> sources;
  sources.push_back({"truth", TrajectoryReader(runs.front().truth)});
  for (const RunData& run : runs) sources.push_back({run.label, TrajectoryReader(run.generated)});
  const TrajectoryInfo& truth = sources.front().reader.info();
  for (const Source& source : sources) {
    const TrajectoryInfo& info = source.reader.info();
    require(info.members >= 1 && info.steps >= 1, "{}: has no states", source.reader.path());
    require(info.state_shape == truth.state_shape, "{}: states {} do not fit the {} of {}",
            source.reader.path(), fmt::join(info.state_shape, " x "),
            fmt::join(truth.state_shape, " x "), sources.front().reader.path());
    require(std::abs(info.dt - truth.dt) <= 1e-6 * std::abs(truth.dt),
            "{}: time step {} does not fit the {} of {}", source.reader.path(), info.dt, truth.dt,
            sources.front().reader.path());
  }
  return sources;
}

// Evenly spread from `first` to `last`, without repeats.
std::vector<std::int64_t> column_steps(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 0; k < kColumns; ++k) {
    steps.push_back(first + (k * (last - first) + (kColumns - 1) / 2) / (kColumns - 1));
  }
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// The points of one cloud: the first two components, or for a single component its value a step
// before and now.
std::vector<Point> read_points(const TrajectoryReader& reader, std::int64_t members,
                               std::int64_t step) {
  const std::int64_t size = reader.info().state_size();
  const std::int64_t states = size == 1 ? 2 : 1;
  const std::int64_t chunk = std::max<std::int64_t>(1, kBufferFloats / (size * states));
  std::vector<Point> points;
  States buffer;
  for (std::int64_t first = 0; first < members; first += chunk) {
    const std::int64_t count = std::min(chunk, members - first);
    buffer.resize(static_cast<std::size_t>(count * states * size));
    reader.read_steps(first, count, step + 1 - states, states, buffer);
    for (std::size_t i = 0; i < buffer.size(); i += static_cast<std::size_t>(states * size)) {
      points.push_back({buffer[i], buffer[i + 1]});
    }
  }
  return points;
}

Frame frame_of(const std::vector<std::vector<Point>>& clouds) {
  std::vector<float> x, y;
  for (const auto& cloud : clouds) {
    for (const Point& p : cloud) x.push_back(p.x), y.push_back(p.y);
  }
  Frame frame;
  frame.x = widened(range_of(x), kMargin);
  frame.y = widened(range_of(y), kMargin);
  return frame;
}

void add_clouds(Gallery& gallery, const std::vector<Source>& sources,
                const std::vector<std::int64_t>& steps) {
  gallery.points = kMaxPoints;
  for (const Source& source : sources) {
    gallery.points = std::min(gallery.points, source.reader.info().members);
  }
  std::int64_t full_count = 2;
  for (const Source& source : sources) {
    std::vector<std::vector<Point>> clouds;
    for (const std::int64_t step : steps) {
      clouds.push_back(source.has(step) ? read_points(source.reader, gallery.points, step)
                                        : std::vector<Point>());
    }
    const bool is_truth = gallery.rows.empty();
    if (is_truth) gallery.frame = frame_of(clouds);
    std::vector<Histogram> histograms;
    for (const auto& cloud : clouds) {
      histograms.push_back(histogram_of(cloud, gallery.frame));
      if (is_truth) full_count = std::max(full_count, histograms.back().max_count());
    }
    GalleryRow row{source.label, {}};
    for (std::size_t c = 0; c < steps.size(); ++c) {
      if (clouds[c].empty()) {
        row.cells.push_back({"", "", "not so long"});
        continue;
      }
      const std::int64_t outside = histograms[c].outside;
      row.cells.push_back(
          {encode_png(draw_cloud(histograms[c], gallery.frame, full_count, kCloudScale)),
           fmt::format("Cloud of {} at {}: {} against {}", source.label, gallery.columns[c],
                       gallery.y_name, gallery.x_name),
           outside > 0 ? fmt::format("{} of {} outside", outside, gallery.points) : ""});
    }
    gallery.rows.push_back(std::move(row));
  }
  gallery.colour_bar = encode_png(draw_colour_bar(ColourMap::kSequential, 180, 12));
  gallery.colour_low = "1";
  gallery.colour_high = fmt::format("{} or more", full_count);
  gallery.colour_name = "members per bin, log scale; empty bins are white";
}

// Colours of the pictures of one report: all columns share the map, each has its own range, since
// fields may decay; colour pictures share that too.
struct FieldColours {
  ColourMap map = ColourMap::kSequential;
  std::vector<Range> ranges;  // per column
};

FieldColours scalar_colours(const std::vector<States>& truth) {
  FieldColours colours;
  for (const States& state : truth) {
    const Range range = range_of(state);
    const double reach = std::max(std::abs(range.low), std::abs(range.high));
    if (range.low < -0.05 * reach) colours.map = ColourMap::kDiverging;
    colours.ranges.push_back(range);
  }
  for (Range& range : colours.ranges) {
    const double reach = std::max(std::abs(range.low), std::abs(range.high));
    if (colours.map == ColourMap::kDiverging) range = {-reach, reach};
    range = widened(range, 0);
  }
  return colours;
}

FieldColours rgb_colours(const std::vector<States>& truth) {
  States ends;
  for (const States& state : truth) {
    const Range range = range_of(state);
    ends.push_back(static_cast<float>(range.low));
    ends.push_back(static_cast<float>(range.high));
  }
  const Range range = rgb_range(range_of(ends));
  return {ColourMap::kSequential, std::vector<Range>(truth.size(), range)};
}

void add_fields(Gallery& gallery, const std::vector<Source>& sources,
                const std::vector<std::int64_t>& steps) {
  const TrajectoryInfo& info = sources.front().reader.info();
  const bool is_rgb = info.channels() == 3;
  const auto height = static_cast<int>(info.state_shape[1]);
  const auto width = static_cast<int>(info.state_shape[2]);
  const int scale = std::max(1, kFieldPixels / std::max(height, width));
  const auto read_state = [&](const Source& source, std::int64_t step) {
    States state(static_cast<std::size_t>(info.state_size()));
    source.reader.read_steps(0, 1, step, 1, state);
    if (!is_rgb) state.resize(state.size() / static_cast<std::size_t>(info.channels()));
    return state;
  };
  std::vector<States> truth;
  for (const std::int64_t step : steps) truth.push_back(read_state(sources.front(), step));
  const FieldColours colours = is_rgb ? rgb_colours(truth) : scalar_colours(truth);
  for (const Source& source : sources) {
    GalleryRow row{source.label, {}};
    for (std::size_t c = 0; c < steps.size(); ++c) {
      if (!source.has(steps[c])) {
        row.cells.push_back({"", "", "not so long"});
        continue;
      }
      const States state = read_state(source, steps[c]);
      const Range range = colours.ranges[c];
      const Image image = is_rgb ? draw_rgb_field(state, height, width, range, scale)
                                 : draw_field(state, height, width, range, colours.map, scale);
      row.cells.push_back({encode_png(image),
                           fmt::format("{} at {}, member 0", source.label, gallery.columns[c]),
                           ""});
    }
    gallery.rows.push_back(std::move(row));
  }
  if (is_rgb) return;
  for (const Range& range : colours.ranges) {
    gallery.column_notes.push_back(
        fmt::format("{} to {}", short_number(range.low), short_number(range.high)));
  }
  gallery.colour_bar = encode_png(draw_colour_bar(colours.map, 180, 12));
  gallery.colour_low = "low", gallery.colour_high = "high";
  gallery.colour_name = gallery.x_name + "; each column has the range written below it";
}

}  // namespace

Gallery make_gallery(const std::vector<RunData>& runs) {
  const std::vector<Source> sources = open_sources(runs);
  const TrajectoryInfo& info = sources.front().reader.info();
  const std::int64_t last = std::min(info.steps, sources[1].reader.info().steps) - 1;
  Gallery gallery;
  gallery.clouds = info.is_vector();
  const bool single = gallery.clouds && info.channels() == 1;
  const std::vector<std::string>& fields = runs.front().fields;
  gallery.x_name = single ? fields[0] + " one step before" : fields[0];
  gallery.y_name = fields[single || fields.size() < 2 ? 0 : 1];
  gallery.end_time = static_cast<double>(last) * info.dt;
  const std::vector<std::int64_t> steps = column_steps(single && last > 0 ? 1 : 0, last);
  for (const std::int64_t step : steps) {
    gallery.columns.push_back(fmt::format("t = {:.4g}", static_cast<double>(step) * info.dt));
  }
  if (single && last == 0) return gallery;
  gallery.clouds ? add_clouds(gallery, sources, steps) : add_fields(gallery, sources, steps);
  return gallery;
}

}  // namespace slift
