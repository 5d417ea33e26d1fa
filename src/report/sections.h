// The parts of the page that are there without JavaScript: words, numbers and pictures as HTML.
#pragma once

#include <string>
#include <vector>

#include "report/gallery.h"
#include "report/run_data.h"

namespace slift {

std::string verdict_html(const std::vector<RunData>& runs);
std::string results_html(const std::vector<RunData>& runs);
std::string scores_html(const std::vector<RunData>& runs);
std::string conditional_html(const std::vector<RunData>& runs);  // empty if no run has any
std::string gallery_html(const Gallery& gallery);
std::string configs_html(const std::vector<RunData>& runs);  // empty if no run has one

}  // namespace slift
