#include "report/preview.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <system_error>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "report/animation.h"
#include "report/snapshots.h"
#include "report/text.h"

namespace slift {

namespace {

namespace fs = std::filesystem;

// All lengths in pixels.
constexpr int kMinCell = 128, kMaxCell = 256;  // longest side of a field's picture
constexpr int kColumnWidth = 128;              // at least, so that labels find room
constexpr int kGap = 4, kMediaGap = 16;
constexpr int kTextScale = 2;
constexpr int kSheetBin = 2, kAnimationBin = 6;  // of a cloud
constexpr Rgb kInk = {60, 60, 60}, kOutline = {214, 214, 214};
constexpr std::int64_t kMembersPerRow = 4;
// Positive media that span more than this factor are shown by their logarithm.
constexpr double kLogarithmicSpan = 1000;

struct Column {
  std::string label;
  std::vector<Image> cells;  // from top to bottom
  int gap_after = kGap;
};

// Columns side by side on white, cells in common rows, each at the upper left of its place.
Image draw_table(const std::vector<Column>& columns) {
  std::vector<int> row_heights;
  std::vector<int> widths;
  int width = kGap;
  for (const Column& column : columns) {
    int& widest = widths.emplace_back(kColumnWidth);
    row_heights.resize(std::max(row_heights.size(), column.cells.size()), 0);
    for (std::size_t r = 0; r < column.cells.size(); ++r) {
      widest = std::max(widest, column.cells[r].width());
      row_heights[r] = std::max(row_heights[r], column.cells[r].height());
    }
    width += widest + column.gap_after;
  }
  const int top = kGap + kTextScale * kTextHeight + kGap;
  int height = top;
  for (const int row : row_heights) height += row + kGap;

  Image table(width, height);
  int x = kGap;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string& label = columns[c].label;
    const int text_scale = text_width(label, kTextScale) <= widths[c] ? kTextScale : 1;
    draw_text(table, x, kGap, label, text_scale, kInk);
    int y = top;
    for (std::size_t r = 0; r < columns[c].cells.size(); ++r) {
      paste(table, columns[c].cells[r], x, y);
      y += row_heights[r] + kGap;
    }
    x += widths[c] + columns[c].gap_after;
  }
  return table;
}

// Steps of the previews; UserError where there is nothing to show.
std::vector<std::int64_t> shown_steps(const TrajectoryReader& reader, std::int64_t count) {
  const TrajectoryInfo& info = reader.info();
  const std::int64_t first = first_shown_step(info), last = info.steps - 1;
  require(first <= last, "{}: a single state of a single component cannot be shown", reader.path());
  return evenly_spaced(first, last, count);
}

// Clouds at several steps, with one frame and one colour scale.
struct CloudSeries {
  Frame frame;
  std::vector<Histogram> histograms;  // one per step
  std::int64_t full_count = 1;

  Image draw(std::size_t index, int bin) const {
    Image image = draw_cloud(histograms[index], frame, full_count, bin);
    const int right = image.width() - 1, bottom = image.height() - 1;
    for (int i = 0; i <= right; ++i) image.at(i, 0) = image.at(i, bottom) = kOutline;
    for (int i = 0; i <= bottom; ++i) image.at(0, i) = image.at(right, i) = kOutline;
    return image;
  }
};

CloudSeries read_clouds(const TrajectoryReader& reader, const std::vector<std::int64_t>& steps) {
  const std::int64_t members = std::min(reader.info().members, kMaxCloudPoints);
  std::vector<Cloud> clouds;
  for (const std::int64_t step : steps) clouds.push_back(read_cloud(reader, members, step));
  CloudSeries series;
  series.frame = frame_of(clouds);
  for (const Cloud& cloud : clouds) {
    series.histograms.push_back(histogram_of(cloud, series.frame));
    series.full_count = std::max(series.full_count, series.histograms.back().max_count());
  }
  return series;
}

// One set of colours for fields with these ranges of values. Scalar fields get the range that the
// extremes of three fields in four stay within, so that a short burst, such as the start of a wave,
// does not make all else pale; the whole range where little else happens.
FieldColours common_colours(const std::vector<Range>& fields,
                            const std::vector<std::int64_t>& shape) {
  std::vector<double> lows, highs;
  for (const Range& field : fields) lows.push_back(field.low), highs.push_back(field.high);
  std::sort(lows.begin(), lows.end(), std::greater<>());
  std::sort(highs.begin(), highs.end());
  const Range all{lows.back(), highs.back()};
  if (is_colour_picture(shape)) return {ColourMap::kSequential, rgb_range(all)};
  const std::size_t most = 3 * (fields.size() - 1) / 4;
  const Range typical{lows[most], highs[most]};
  const ColourMap map = colour_map_for(all);
  return {map, colour_range(typical.size() > 0.1 * all.size() ? typical : all, map)};
}

// The same for all previews of a file: made for what its default sheet shows.
FieldColours colours_of_file(const TrajectoryReader& reader) {
  const TrajectoryInfo& info = reader.info();
  const SheetOptions sample;
  std::vector<Range> ranges;
  for (std::int64_t member = 0; member < std::min(sample.members, info.members); ++member) {
    for (const std::int64_t step : shown_steps(reader, sample.times)) {
      const std::vector<float> state = read_state(reader, member, step);
      ranges.push_back(range_of(shown_values(state, info.state_shape)));
    }
  }
  return common_colours(ranges, info.state_shape);
}

Image draw_cell(std::span<const float> field, const std::vector<std::int64_t>& shape,
                const FieldColours& colours) {
  const auto longest = static_cast<int>(std::max(shape[1], shape[2]));
  const Image image = draw_snapshot(field, shape, colours, (kMinCell + longest - 1) / longest);
  return longest > kMaxCell ? shrunk(image, (longest + kMaxCell - 1) / kMaxCell) : image;
}

Column draw_media(const TrajectoryReader& reader, std::int64_t members) {
  const TrajectoryInfo& info = reader.info();
  const auto size = static_cast<std::size_t>(info.media_size());
  std::vector<float> media(static_cast<std::size_t>(members) * size);
  reader.read_media(0, members, media);
  const Range all = range_of(media);
  if (all.low > 0 && all.high > kLogarithmicSpan * all.low) {
    for (float& value : media) value = std::log(value);
  }
  std::vector<Range> ranges;
  const std::span<const float> fields = media;
  for (std::size_t i = 0; i < media.size(); i += size) {
    ranges.push_back(range_of(shown_values(fields.subspan(i, size), info.media_shape)));
  }
  const FieldColours colours = common_colours(ranges, info.media_shape);
  Column column{"medium", {}, kMediaGap};
  for (std::size_t i = 0; i < media.size(); i += size) {
    column.cells.push_back(draw_cell(fields.subspan(i, size), info.media_shape, colours));
  }
  return column;
}

std::vector<Column> cloud_columns(const TrajectoryReader& reader,
                                  const std::vector<std::int64_t>& steps) {
  const CloudSeries clouds = read_clouds(reader, steps);
  std::vector<Column> columns;
  for (std::size_t c = 0; c < steps.size(); ++c) {
    columns.push_back({time_label(steps[c], reader.info().dt), {clouds.draw(c, kSheetBin)}});
  }
  return columns;
}

std::vector<Column> field_columns(const TrajectoryReader& reader,
                                  const std::vector<std::int64_t>& steps, std::int64_t members) {
  const TrajectoryInfo& info = reader.info();
  const FieldColours colours = colours_of_file(reader);
  std::vector<Column> columns;
  if (!info.media_shape.empty()) columns.push_back(draw_media(reader, members));
  for (const std::int64_t step : steps) {
    Column& column = columns.emplace_back(Column{time_label(step, info.dt), {}});
    for (std::int64_t member = 0; member < members; ++member) {
      column.cells.push_back(
          draw_cell(read_state(reader, member, step), info.state_shape, colours));
    }
  }
  return columns;
}

// Draws the cells of a frame of an animation; refers to the reader it was made for.
using DrawFrame = std::function<std::vector<Column>(std::size_t index, std::int64_t step)>;

DrawFrame cloud_frames(const TrajectoryReader& reader, const std::vector<std::int64_t>& steps) {
  return [clouds = read_clouds(reader, steps)](std::size_t index, std::int64_t) {
    return std::vector<Column>{{"", {clouds.draw(index, kAnimationBin)}}};
  };
}

DrawFrame field_frames(const TrajectoryReader& reader, std::int64_t members) {
  return [&reader, members, colours = colours_of_file(reader)](std::size_t, std::int64_t step) {
    std::vector<Column> columns(static_cast<std::size_t>(std::min(members, kMembersPerRow)));
    for (std::int64_t member = 0; member < members; ++member) {
      columns[static_cast<std::size_t>(member % kMembersPerRow)].cells.push_back(
          draw_cell(read_state(reader, member, step), reader.info().state_shape, colours));
    }
    return columns;
  };
}

}  // namespace

Image draw_sheet(const TrajectoryReader& reader, const SheetOptions& options) {
  const TrajectoryInfo& info = reader.info();
  const std::vector<std::int64_t> steps = shown_steps(reader, options.times);
  return draw_table(info.is_vector()
                        ? cloud_columns(reader, steps)
                        : field_columns(reader, steps, std::min(options.members, info.members)));
}

std::string encode_animation(const TrajectoryReader& reader, const AnimationOptions& options) {
  const TrajectoryInfo& info = reader.info();
  const std::vector<std::int64_t> steps =
      shown_steps(reader, std::min(info.steps, options.max_frames));
  const DrawFrame draw_frame = info.is_vector()
                                   ? cloud_frames(reader, steps)
                                   : field_frames(reader, std::min(options.members, info.members));
  Progress progress("preview", "frame", static_cast<std::int64_t>(steps.size()));
  const auto draw = [&](std::int64_t frame) {
    if (interrupt_requested()) throw Interrupted("preview stopped; it was not written");
    progress.update(frame);
    const auto index = static_cast<std::size_t>(frame);
    std::vector<Column> columns = draw_frame(index, steps[index]);
    columns.front().label = time_label(steps[index], info.dt);
    return draw_table(columns);
  };
  std::string bytes =
      encode_apng(static_cast<std::int64_t>(steps.size()), draw, options.frames_per_second);
  progress.update(static_cast<std::int64_t>(steps.size()));
  return bytes;
}

void check_preview_path(const fs::path& preview, const fs::path& trajectories) {
  const std::string ending = preview.extension().string();
  require(ending == ".png" || ending == ".apng",
          "{}: a preview must end in .png (sheet) or .apng (animation)", preview.string());
  std::error_code ignored;
  require(!fs::is_directory(preview, ignored), "{}: is a folder, a preview is to be written there",
          preview.string());
  require_not_input(preview, {trajectories});
}

void write_preview(const fs::path& trajectories, const fs::path& preview) {
  check_preview_path(preview, trajectories);
  const TrajectoryReader reader(trajectories);
  write_file_atomically(preview, preview.extension() == ".png" ? encode_png(draw_sheet(reader))
                                                               : encode_animation(reader));
}

}  // namespace slift
