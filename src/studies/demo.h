// The whole of slift in two minutes on two cores: Duffing data, a lifted model and its
// deterministic baseline, ensembles, evaluation, report. And an ensemble of waves, by a model that
// comes with the program: learning that one takes longer (models/README.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "metrics/scoring.h"

namespace slift {

struct DemoResult {
  double seconds = 0;
  double floor = 0;          // time-mean sliced W2, truth against truth
  double lifted = 0;         // the same, lifted model against truth
  double deterministic = 0;  // the same, label dimension 0
  std::filesystem::path report;
  std::vector<Score> waves;  // WIM, WCT and the distance of spectra
  std::filesystem::path wave_report;
};

// Writes everything below `folder`, replacing an earlier demo there. The numbers depend on the
// machine's arithmetic only, not on the run.
DemoResult run_demo(const std::filesystem::path& folder, const std::string& device);

}  // namespace slift
