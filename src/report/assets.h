// The files of the report page, compiled into the library by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace slift::assets {

extern const std::string_view report_html;
extern const std::string_view report_css;
extern const std::string_view report_js;
extern const std::string_view chart_js;  // Chart.js; empty if it was not there at build time

}  // namespace slift::assets
