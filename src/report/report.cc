#include "report/report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "report/assets.h"
#include "report/gallery.h"
#include "report/html.h"
#include "report/run_data.h"
#include "report/sections.h"

namespace slift {

using nlohmann::json;

namespace {

json gauge_data(const GaugeCurve& gauge) {
  return {{"t", gauge.t}, {"training", gauge.training}, {"held_out", gauge.held_out}};
}

// What report.js draws the charts from.
json chart_data(const std::vector<RunData>& runs, double end_time) {
  json data = {{"system", runs.front().system},
               {"distance_name", name_in_words(runs.front().headline())},
               {"end_time", end_time},
               {"runs", json::array()}};
  for (const RunData& run : runs) {
    data["runs"].push_back({{"label", run.label},
                            {"trained", !run.config.empty()},
                            {"evaluation", run.evaluation},
                            {"loss", {{"step", run.log.loss.step}, {"value", run.log.loss.loss}}},
                            {"gauge", gauge_data(run.log.gauge)}});
  }
  return data;
}

std::string subtitle(const RunData& run) {
  return fmt::format("{} generated trajectories of {} compared with {} true ones", run.members,
                     run.system, run.members);
}

// The attribute of a section, and of the link to it, that has nothing to show.
std::string hidden_if(bool empty) { return empty ? " hidden" : ""; }

}  // namespace

void write_report(const std::vector<ReportRun>& runs, const std::filesystem::path& out) {
  require(!runs.empty(), "a report needs at least one run");
  std::vector<RunData> data;
  for (const ReportRun& run : runs) {
    data.push_back(load_run(run));
    require(data.back().fields == data.front().fields,
            "{}: its fields are [{}], those of {} are [{}]: these runs cannot be compared",
            run.label, fmt::join(data.back().fields, ", "), runs.front().label,
            fmt::join(data.front().fields, ", "));
    require(
        data.back().steps == data.front().steps,
        "{}: its evaluation compares {} states, that of {} {}: `slift compare` compares all over "
        "the same time",
        run.label, data.back().steps, runs.front().label, data.front().steps);
  }
  const Gallery gallery = make_gallery(data);
  const RunData& subject = data.front();
  const std::string conditional = conditional_html(data), configs = configs_html(data);
  const std::map<std::string, std::string> values = {
      {"title", escape_html(subject.system + ": " + subject.label)},
      {"subtitle", escape_html(subtitle(subject))},
      {"distance", escape_html(name_in_words(subject.headline()))},
      {"members", std::to_string(subject.members)},
      {"system_kind", subject.of_vectors() ? "vector" : "field"},
      {"pictures_heading", subject.of_vectors() ? "Clouds in phase space" : "Pictures"},
      {"verdict", verdict_html(data)},
      {"results", results_html(data)},
      {"scores", scores_html(data)},
      {"conditional", conditional},
      {"conditional_hidden", hidden_if(conditional.empty())},
      {"gallery", gallery_html(gallery)},
      {"configs", configs},
      {"configs_hidden", hidden_if(configs.empty())},
      {"css", std::string(assets::report_css)},
      {"data", json_for_script(chart_data(data, gallery.end_time))},
      {"chart_js", code_for_script(assets::chart_js)},
      {"js", code_for_script(assets::report_js)}};
  write_file_atomically(out, fill_template(assets::report_html, values));
}

}  // namespace slift
