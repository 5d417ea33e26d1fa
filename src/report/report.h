// Results to one HTML file that needs nothing else: no network, no folder beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slift {

// A run, or a plain data set that was evaluated like one.
struct ReportRun {
  std::string label;
  // May hold config.toml and metrics.jsonl, which the page shows if they are there; may be empty.
  std::filesystem::path folder;
  std::filesystem::path evaluation = {};  // default: evaluation.json in `folder`
};

// The first run is the subject, the others are compared with it; all must be of the same kind of
// state and time step. Reads also the trajectory files that the evaluations name, for pictures.
// The evaluation.json of a folder must be of the members and steps these files have now.
// `out` appears whole or not at all. Throws UserError naming the file that is missing or unfit.
void write_report(const std::vector<ReportRun>& runs, const std::filesystem::path& out);

}  // namespace slift
