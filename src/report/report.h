// Results to one HTML file that needs nothing else: no network, no folder beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slift {

struct ReportRun {
  std::string label;
  // Holds config.toml, evaluation.json, metrics.jsonl (which may be missing: no loss curve then).
  std::filesystem::path folder;
};

// The first run is the subject, the others are compared with it; all must be of the same kind of
// state and time step. Reads also the trajectory files that evaluation.json names, for pictures.
// `out` appears whole or not at all. Throws UserError naming the file that is missing or unfit.
void write_report(const std::vector<ReportRun>& runs, const std::filesystem::path& out);

}  // namespace slift
