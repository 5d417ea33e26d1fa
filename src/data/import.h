// Brings foreign arrays into a trajectory file, in pieces: NumPy .npy files and HDF5 data sets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/trajectories.h"

namespace slift {

struct ImportOptions {
  std::string dataset;  // HDF5: path of the data set; empty: the only one in the file
  // One letter per axis of the source, outermost first: M member, T time, N component (vectors),
  // C channel, H row, W column. Missing M: one trajectory a file; missing C or N: one.
  // Empty: MTN, MTHW or MTCHW by the array's rank.
  std::string layout;
  double dt = 1;
  std::string system = "imported";
  std::string boundary = "none";
  std::vector<std::string> fields;
};

// Appends the trajectories of all `sources` in order into one file. Values must be finite; the
// first source that float32 cannot hold well is warned about. All sources must agree in all axes
// but M. On failure nothing is left at `out`. Throws Interrupted after a signal.
TrajectoryInfo import_trajectories(const std::vector<std::filesystem::path>& sources,
                                   const std::filesystem::path& out, const ImportOptions& options);

}  // namespace slift
