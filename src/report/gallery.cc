#include "report/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "data/trajectories.h"
#include "report/score.h"
#include "report/snapshots.h"

namespace slift {

namespace {

constexpr std::int64_t kColumns = 6;
constexpr int kCloudScale = 4;     // pixels per bin
constexpr int kFieldPixels = 256;  // small fields are enlarged to about this

// One row to be: a file and how it is called.
struct Source {
  std::string label;
  std::optional<std::size_t> run;
  TrajectoryReader reader;

  bool has_states() const { return reader.info().record.empty(); }
};

// The truth, then the runs.
std::vector<Source> open_sources(const std::vector<RunData>& runs) {
  std::vector<Source> sources;
  sources.push_back({"truth", std::nullopt, TrajectoryReader(runs.front().truth)});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    sources.push_back({runs[i].label, i, TrajectoryReader(runs[i].generated)});
  }
  const Source& truth = sources.front();
  for (const Source& source : sources) {
    const TrajectoryInfo &info = source.reader.info(), &expected = truth.reader.info();
    require(info.members >= 1 && info.steps >= 1, "{}: has no states", source.reader.path());
    require(!source.has_states() || !truth.has_states() || info.state_shape == expected.state_shape,
            "{}: states {} do not fit the {} of {}", source.reader.path(),
            fmt::join(info.state_shape, " x "), fmt::join(expected.state_shape, " x "),
            truth.reader.path());
    require(std::abs(info.dt - expected.dt) <= 1e-6 * std::abs(expected.dt),
            "{}: time step {} does not fit the {} of {}", source.reader.path(), info.dt,
            expected.dt, truth.reader.path());
  }
  return sources;
}

std::string note_on(const std::vector<Source>& sources) {
  if (!sources.front().has_states()) return "No pictures: the truth holds records, not states.";
  std::vector<std::string> labels;
  for (const Source& source : sources) {
    if (!source.has_states()) labels.push_back(source.label);
  }
  if (labels.empty()) return "";
  return fmt::format("No pictures of {}: rolled out with --no-states.", fmt::join(labels, ", "));
}

void add_clouds(Gallery& gallery, const std::vector<Source>& sources,
                const std::vector<std::int64_t>& steps) {
  gallery.points = kMaxCloudPoints;
  for (const Source& source : sources) {
    gallery.points = std::min(gallery.points, source.reader.info().members);
  }
  std::int64_t full_count = 2;
  for (const Source& source : sources) {
    std::vector<Cloud> clouds;
    for (const std::int64_t step : steps) {
      clouds.push_back(read_cloud(source.reader, gallery.points, step));
    }
    const bool is_truth = gallery.rows.empty();
    if (is_truth) gallery.frame = frame_of(clouds);
    std::vector<Histogram> histograms;
    for (const auto& cloud : clouds) {
      histograms.push_back(histogram_of(cloud, gallery.frame));
      if (is_truth) full_count = std::max(full_count, histograms.back().max_count());
    }
    GalleryRow row{source.label, source.run, {}};
    for (std::size_t c = 0; c < steps.size(); ++c) {
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

// All columns share the map, each has its own range, since fields may decay; colour pictures share
// that too.
std::vector<FieldColours> colours_of(const std::vector<Range>& columns, bool is_colour) {
  Range all = columns.front();
  ColourMap map = ColourMap::kSequential;
  for (const Range& range : columns) {
    all = {std::min(all.low, range.low), std::max(all.high, range.high)};
    if (colour_map_for(range) == ColourMap::kDiverging) map = ColourMap::kDiverging;
  }
  std::vector<FieldColours> colours;
  for (const Range& range : columns) {
    colours.push_back({map, is_colour ? rgb_range(all) : colour_range(range, map)});
  }
  return colours;
}

void add_fields(Gallery& gallery, const std::vector<Source>& sources,
                const std::vector<std::int64_t>& steps) {
  const std::vector<std::int64_t>& shape = sources.front().reader.info().state_shape;
  const auto longest = static_cast<int>(std::max(shape[1], shape[2]));
  const int scale = std::max(1, kFieldPixels / longest);
  std::vector<Range> ranges;
  for (const std::int64_t step : steps) {
    const std::vector<float> state = read_state(sources.front().reader, 0, step);
    ranges.push_back(range_of(shown_values(state, shape)));
  }
  const std::vector<FieldColours> colours = colours_of(ranges, is_colour_picture(shape));
  for (const Source& source : sources) {
    GalleryRow row{source.label, source.run, {}};
    for (std::size_t c = 0; c < steps.size(); ++c) {
      const std::vector<float> state = read_state(source.reader, 0, steps[c]);
      row.cells.push_back({encode_png(draw_snapshot(state, shape, colours[c], scale)),
                           fmt::format("{} at {}, member 0", source.label, gallery.columns[c]),
                           ""});
    }
    gallery.rows.push_back(std::move(row));
  }
  if (is_colour_picture(shape)) return;
  for (const FieldColours& column : colours) {
    gallery.column_notes.push_back(
        fmt::format("{} to {}", short_number(column.range.low), short_number(column.range.high)));
  }
  gallery.colour_bar = encode_png(draw_colour_bar(colours.front().map, 180, 12));
  gallery.colour_low = "low", gallery.colour_high = "high";
  gallery.colour_name = gallery.x_name + "; each column has the range written below it";
}

}  // namespace

Gallery make_gallery(const std::vector<RunData>& runs) {
  std::vector<Source> sources = open_sources(runs), shown;
  const TrajectoryInfo info = sources[0].reader.info();
  std::int64_t last = runs.front().steps - 1;
  for (const Source& source : sources) last = std::min(last, source.reader.info().steps - 1);
  Gallery gallery;
  gallery.end_time = static_cast<double>(last) * info.dt;
  gallery.note = note_on(sources);
  if (!sources.front().has_states()) return gallery;
  for (Source& source : sources) {
    if (source.has_states()) shown.push_back(std::move(source));
  }
  gallery.clouds = info.is_vector();
  const bool single = gallery.clouds && info.channels() == 1;
  if (single && last == 0) {
    gallery.note = "No pictures: there is a single state.";
    return gallery;
  }
  const std::vector<std::string>& fields = runs.front().fields;
  gallery.x_name = single ? fields[0] + " one step before" : fields[0];
  gallery.y_name = fields[single || fields.size() < 2 ? 0 : 1];
  const std::vector<std::int64_t> steps =
      evenly_spaced(std::min(first_shown_step(info), last), last, kColumns);
  for (const std::int64_t step : steps) {
    gallery.columns.push_back(time_label(step, info.dt));
  }
  gallery.clouds ? add_clouds(gallery, shown, steps) : add_fields(gallery, shown, steps);
  return gallery;
}

}  // namespace slift
