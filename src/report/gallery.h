// The pictures of a report: truth and runs in rows, times in columns.
//
// Vectors are shown as clouds of their first two components, fields as pictures of member 0. Only
// the states shown are read, of at most 4096 members. Files of records have no states to show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/picture.h"
#include "report/run_data.h"

namespace slift {

struct GalleryCell {
  std::string picture;  // PNG bytes; empty where the run is too short
  std::string alt;
  std::string note;  // "12 points outside"; mostly empty
};

struct GalleryRow {
  std::string label;
  std::optional<std::size_t> run;  // which one; nothing for the truth
  std::vector<GalleryCell> cells;  // one per column
};

struct Gallery {
  bool clouds = false;                    // else fields
  std::int64_t points = 0;                // per cloud
  std::vector<std::string> columns;       // "t = 2.8"
  std::vector<GalleryRow> rows;           // truth first; none if it has no states
  std::string note;                       // what is not shown, and why; mostly empty
  std::string x_name, y_name;             // of clouds
  Frame frame;                            // of clouds
  std::vector<std::string> column_notes;  // of fields: the colour range of each column
  std::string colour_bar;                 // PNG bytes; empty for colour pictures
  std::string colour_low, colour_high;    // the ends of the colour bar in words
  std::string colour_name;                // what the colours mean
  double end_time = 0;                    // of the last column, in the system's own units
};

// The truth and the times are those of the first run. Throws UserError naming a file whose states
// or time step do not fit.
Gallery make_gallery(const std::vector<RunData>& runs);

}  // namespace slift
