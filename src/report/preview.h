// A trajectory file at a glance: a contact sheet (.png) or an animation (.apng).
//
// Fields are shown member by member, all in one colour range that fits the file; colour pictures as
// such. Vectors are shown as clouds of their first two components over all members, at most 4096.
// Only what is shown is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/trajectories.h"
#include "report/picture.h"

namespace slift {

struct SheetOptions {
  std::int64_t members = 4;  // of fields
  std::int64_t times = 8;
};

// Members in rows, stored times in columns, evenly spaced from the first to the last; the media of
// fields, if the file has them, in a column of their own on the left. Clouds make a single row.
// Throws UserError if the file has nothing to show (a single state of a single component).
Image draw_sheet(const TrajectoryReader& reader, const SheetOptions& options = {});

struct AnimationOptions {
  std::int64_t members = 8;  // of fields
  std::int64_t max_frames = 300;
  int frames_per_second = 15;
};

// The bytes of an APNG of all stored states, evenly thinned to `max_frames`: fields in a grid of
// four members a row, vectors as one cloud. Shows a progress line. Throws UserError as draw_sheet()
// does, Interrupted on Ctrl-C.
std::string encode_animation(const TrajectoryReader& reader, const AnimationOptions& options = {});

// Throws UserError unless `preview` ends in .png or .apng, is no folder and is not the trajectory
// file itself: to be called before long work.
void check_preview_path(const std::filesystem::path& preview,
                        const std::filesystem::path& trajectories);

// Writes the preview that the ending of `preview` names; it appears whole or not at all. Throws
// UserError if a path or the trajectory file does not serve.
void write_preview(const std::filesystem::path& trajectories, const std::filesystem::path& preview);

}  // namespace slift
