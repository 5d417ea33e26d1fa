// How states of trajectory files are shown, in reports and previews alike: vectors as clouds of
// their first two components, fields as pictures; which times, which frame, which colours.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "report/picture.h"

namespace slift {

// At most `count` steps evenly spread from `first` to `last`, without repeats; both ends are among
// them, only the first for a `count` of 1.
std::vector<std::int64_t> evenly_spaced(std::int64_t first, std::int64_t last, std::int64_t count);

// The first step that can be shown: 0, but 1 for vectors of one component, which are drawn against
// their value one step before.
std::int64_t first_shown_step(const TrajectoryInfo& info);

// "t = 2.8". All labels of one `dt` have the same number of decimals where that says enough.
std::string time_label(std::int64_t step, double dt);

using Cloud = std::vector<Point>;

// Members of a cloud are the first of a file, at most this many.
inline constexpr std::int64_t kMaxCloudPoints = 4096;

// The first two components of members 0 .. members-1 at `step`. Memory is bounded whatever the size
// of a state.
Cloud read_cloud(const TrajectoryReader& reader, std::int64_t members, std::int64_t step);

// The frame that holds all these clouds, with a margin.
Frame frame_of(const std::vector<Cloud>& clouds);

// One state of one member.
std::vector<float> read_state(const TrajectoryReader& reader, std::int64_t member,
                              std::int64_t step);

// A field of three channels is a colour picture, of any other the first channel is shown.
bool is_colour_picture(const std::vector<std::int64_t>& shape);  // {C, H, W}

// The values of a field [C, H, W] that its picture shows: all, or those of the first channel.
std::span<const float> shown_values(std::span<const float> field,
                                    const std::vector<std::int64_t>& shape);

// The colours of a picture; colour pictures need only the range.
struct FieldColours {
  ColourMap map = ColourMap::kSequential;
  Range range;
};

// Draws shown_values(), every cell a square of `scale` pixels.
Image draw_snapshot(std::span<const float> field, const std::vector<std::int64_t>& shape,
                    const FieldColours& colours, int scale);

}  // namespace slift
