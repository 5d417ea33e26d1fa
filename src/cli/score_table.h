// Scores of one or several ensembles as a table on the terminal.
#pragma once

#include <string>
#include <vector>

#include "metrics/evaluation.h"

namespace slift::cli {

// Rows are scores with value, floor, ratio and the ratio's 95 % interval.
std::string score_table(const Evaluation& evaluation);

// The same scores of several ensembles side by side: the floor, then value and ratio of each.
std::string comparison_table(const std::vector<std::string>& labels,
                             const std::vector<Evaluation>& evaluations);

}  // namespace slift::cli
