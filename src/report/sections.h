// The parts of the page that are there without JavaScript: words, numbers and pictures as HTML.
#pragma once

#include <string>
#include <vector>

#include "report/gallery.h"
#include "report/run_data.h"

namespace slift {

std::string distance_name(const RunData& run);  // "sliced W2" or "W2 of mean |x|"
std::string verdict_html(const std::vector<RunData>& runs);
std::string results_html(const std::vector<RunData>& runs);
std::string gallery_html(const Gallery& gallery);
std::string configs_html(const std::vector<RunData>& runs);

}  // namespace slift
