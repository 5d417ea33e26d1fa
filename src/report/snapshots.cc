#include "report/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace slift {

namespace {

constexpr std::int64_t kBufferFloats = 8 << 20;
constexpr double kCloudMargin = 0.06;  // of a cloud's frame, on each side

}  // namespace

std::vector<std::int64_t> evenly_spaced(std::int64_t first, std::int64_t last, std::int64_t count) {
  const std::int64_t intervals = std::max<std::int64_t>(count - 1, 1);
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 0; k < count; ++k) {
    steps.push_back(first + (k * (last - first) + intervals / 2) / intervals);
  }
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::int64_t first_shown_step(const TrajectoryInfo& info) {
  return info.is_vector() && info.channels() == 1 ? 1 : 0;
}

std::string time_label(std::int64_t step, double dt) {
  const double time = static_cast<double>(step) * dt;
  double unit = dt;
  for (int decimals = 0; decimals <= 4; ++decimals, unit *= 10) {
    const double whole = std::round(unit);
    if (whole >= 1 && std::abs(unit - whole) <= 0.01 * unit && std::abs(time) < 1e6) {
      return fmt::format("t = {:.{}f}", time, decimals);
    }
  }
  return fmt::format("t = {:.4g}", time);
}

Cloud read_cloud(const TrajectoryReader& reader, std::int64_t members, std::int64_t step) {
  const std::int64_t size = reader.info().state_size();
  const std::int64_t states = size == 1 ? 2 : 1;
  const std::int64_t chunk = std::max<std::int64_t>(1, kBufferFloats / (size * states));
  Cloud cloud;
  std::vector<float> buffer;
  for (std::int64_t first = 0; first < members; first += chunk) {
    const std::int64_t count = std::min(chunk, members - first);
    buffer.resize(static_cast<std::size_t>(count * states * size));
    reader.read_steps(first, count, step + 1 - states, states, buffer);
    for (std::size_t i = 0; i < buffer.size(); i += static_cast<std::size_t>(states * size)) {
      cloud.push_back({buffer[i], buffer[i + 1]});
    }
  }
  return cloud;
}

Frame frame_of(const std::vector<Cloud>& clouds) {
  std::vector<float> x, y;
  for (const Cloud& cloud : clouds) {
    for (const Point& p : cloud) x.push_back(p.x), y.push_back(p.y);
  }
  Frame frame;
  frame.x = widened(range_of(x), kCloudMargin);
  frame.y = widened(range_of(y), kCloudMargin);
  return frame;
}

std::vector<float> read_state(const TrajectoryReader& reader, std::int64_t member,
                              std::int64_t step) {
  std::vector<float> state(static_cast<std::size_t>(reader.info().state_size()));
  reader.read_steps(member, 1, step, 1, state);
  return state;
}

bool is_colour_picture(const std::vector<std::int64_t>& shape) { return shape[0] == 3; }

std::span<const float> shown_values(std::span<const float> field,
                                    const std::vector<std::int64_t>& shape) {
  return is_colour_picture(shape) ? field
                                  : field.first(static_cast<std::size_t>(shape[1] * shape[2]));
}

Image draw_snapshot(std::span<const float> field, const std::vector<std::int64_t>& shape,
                    const FieldColours& colours, int scale) {
  const auto height = static_cast<int>(shape[1]), width = static_cast<int>(shape[2]);
  const std::span<const float> values = shown_values(field, shape);
  return is_colour_picture(shape)
             ? draw_rgb_field(values, height, width, colours.range, scale)
             : draw_field(values, height, width, colours.range, colours.map, scale);
}

}  // namespace slift
