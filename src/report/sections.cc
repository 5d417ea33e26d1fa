#include "report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/html.h"
#include "report/score.h"
#include "report/verdict.h"

namespace slift {

namespace {

// Colours of runs repeat after these; report.css and report.js know the same number.
constexpr std::size_t kRunColours = 6;

std::string swatch(std::size_t run) {
  return fmt::format("<span class=\"swatch run-{}\"></span>", run % kRunColours);
}

std::string interval_html(double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return "";
  return fmt::format("{} to {}", short_number(low), short_number(high));
}

std::string sentence_html(const std::string& sentence, bool alarm) {
  if (sentence.empty()) return "";
  return fmt::format("<p{}>{}</p>\n", alarm ? " class=\"alarm\"" : "", escape_html(sentence));
}

std::string picture_html(const std::string& png, const std::string& alt) {
  return fmt::format("<img src=\"data:image/png;base64,{}\" alt=\"{}\">", encode_base64(png),
                     escape_html(alt));
}

std::string spread_text(const Spread& spread) {
  if (!std::isfinite(spread.smallest)) return "n/a";
  const std::string low = short_number(spread.smallest), high = short_number(spread.largest);
  return low == high ? low : low + " to " + high;
}

// A cell with a number and its 95 % interval.
std::string number_cell(const std::string& number, double low, double high,
                        const char* kind = "number") {
  return fmt::format("<td class=\"{}\">{}<small>{}</small></td>", kind, number,
                     interval_html(low, high));
}

std::string spread_cells(const RunData& run, bool alarm) {
  const char* kind = alarm ? "number alarm" : "number";
  const ReportScore* skill = find_score(run.scores, kSpreadSkill, "state");
  return (skill == nullptr
              ? "<td class=\"absent\">not computed</td>"
              : number_cell(short_number(skill->value), skill->low, skill->high, kind)) +
         fmt::format("<td class=\"{}\">{}</td>", kind, spread_text(run.spread));
}

std::string result_row(const RunData& run, std::size_t index) {
  const Verdict verdict = verdict_of(run);
  const ReportScore& distance = run.headline();
  return fmt::format("<tr><th scope=\"row\">{}{}</th>", swatch(index), escape_html(run.label)) +
         number_cell(short_number(distance.value), distance.low, distance.high) +
         fmt::format("<td class=\"number\">{}</td>", short_number(distance.floor)) +
         number_cell("<b>" + short_number(distance.ratio) + "</b>", distance.ratio_low,
                     distance.ratio_high) +
         spread_cells(run, verdict.collapsed) +
         fmt::format("<td><span class=\"tag {}\">{}</span></td></tr>\n", css_class(verdict.level),
                     escape_html(verdict.headline));
}

// Which list of a run's scores a table shows.
using ScoreList = std::vector<ReportScore> RunData::*;

// One score for each row: those of the first run, then what only later ones have.
std::vector<ReportScore> table_rows(const std::vector<RunData>& runs, ScoreList list) {
  std::vector<ReportScore> rows;
  for (const RunData& run : runs) {
    for (const ReportScore& score : run.*list) {
      if (find_score(rows, score.metric, score.name) == nullptr) rows.push_back(score);
    }
  }
  return rows;
}

std::string mark_html(Level level) {
  if (level == Level::kUnknown) return "<span class=\"mark\"></span>";
  return fmt::format("<span class=\"mark {}\" title=\"{}\"></span>", css_class(level),
                     in_words(level));
}

// What a run's score has beside its numbers, and its floor where that is not the row's.
std::string remarks_html(const ReportScore& score, double row_floor) {
  std::string html;
  const auto add = [&](const std::string& remark) { html += "<br>" + remark; };
  if (std::isfinite(score.points)) add(short_number(score.points) + " points");
  if (std::isfinite(score.never_generated)) {
    add("never: " + percent(score.never_generated));
    add("truth: " + percent(score.never_truth));
  }
  if (std::isfinite(score.floor) && short_number(score.floor) != short_number(row_floor)) {
    add("floor " + short_number(score.floor));
  }
  return html;
}

std::string score_cells(const ReportScore* score, double row_floor) {
  if (score == nullptr) return "<td class=\"absent\" colspan=\"2\">not computed</td>";
  return number_cell(mark_html(judge(*score)) + short_number(score->value), score->low,
                     score->high) +
         fmt::format("<td class=\"number\">{}<small>{}{}</small></td>", short_number(score->ratio),
                     interval_html(score->ratio_low, score->ratio_high),
                     remarks_html(*score, row_floor));
}

// `note` says more about a run below its name.
std::string score_table(const std::vector<RunData>& runs, ScoreList list,
                        const std::function<std::string(const RunData&)>& note) {
  std::string html =
      "<div class=\"scroll\"><table class=\"results scores\">\n<thead><tr><th "
      "rowspan=\"2\">Score</th><th rowspan=\"2\">Floor</th>";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format("<th colspan=\"2\" class=\"run\">{}{}{}</th>", swatch(i),
                        escape_html(runs[i].label), note(runs[i]));
  }
  html += "</tr><tr>";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += "<th>Value<small>95 %</small></th><th>Ratio to floor<small>95 %</small></th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const ReportScore& row : table_rows(runs, list)) {
    html +=
        fmt::format("<tr><th scope=\"row\">{}<small>{}</small></th><td class=\"number\">{}</td>",
                    escape_html(name_in_words(row)), unit_in_words(row), short_number(row.floor));
    for (const RunData& run : runs) {
      html += score_cells(find_score(run.*list, row.metric, row.name), row.floor);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>";
}

// A line with the row's name above its pictures, as wide as the table.
std::string row_heading(const Gallery& gallery, std::size_t row) {
  const std::optional<std::size_t> run = gallery.rows[row].run;
  const std::string mark = run ? swatch(*run) : "<span class=\"swatch truth\"></span>";
  return fmt::format("<tr><th scope=\"rowgroup\" colspan=\"{}\">{}{}</th></tr>\n",
                     gallery.columns.size() + (gallery.clouds ? 1 : 0), mark,
                     escape_html(gallery.rows[row].label));
}

// The names and ends of a cloud's axes stand beside the first column and below the last row.
std::string y_axis_html(const Gallery& gallery) {
  if (!gallery.clouds) return "";
  return fmt::format("<td class=\"y-axis\"><div><span>{}</span><i>{}</i><span>{}</span></div></td>",
                     short_number(gallery.frame.y.high), escape_html(gallery.y_name),
                     short_number(gallery.frame.y.low));
}

std::string footer_row(const Gallery& gallery) {
  std::string html;
  if (gallery.clouds) {
    html = "<tr class=\"foot\"><td></td>";
    for (std::size_t c = 0; c < gallery.columns.size(); ++c) {
      html += fmt::format("<td><div><span>{}</span><i>{}</i><span>{}</span></div></td>",
                          short_number(gallery.frame.x.low), escape_html(gallery.x_name),
                          short_number(gallery.frame.x.high));
    }
  } else if (!gallery.column_notes.empty()) {
    html = "<tr class=\"foot\">";
    for (const std::string& note : gallery.column_notes) {
      html += fmt::format("<td><div><i>{}</i></div></td>", escape_html(note));
    }
  }
  return html.empty() ? html : html + "</tr>\n";
}

std::string gallery_caption(const Gallery& gallery) {
  if (gallery.clouds) {
    return fmt::format(
        "Each picture shows {} members at one time, in the plane of {} and {}. All pictures share "
        "their limits, taken from the truth; grey lines mark zero.",
        gallery.points, escape_html(gallery.x_name), escape_html(gallery.y_name));
  }
  return "Member 0 of each file. Generated members are other realisations than the true one: they "
         "should look alike in kind, not cell by cell.";
}

}  // namespace

std::string verdict_html(const std::vector<RunData>& runs) {
  const Verdict subject = verdict_of(runs.front());
  std::string html = fmt::format("<div class=\"verdict {}\">\n<p class=\"headline\">{}: {}.</p>\n",
                                 css_class(subject.level), escape_html(runs.front().label),
                                 escape_html(subject.headline));
  html += sentence_html(subject.distance, false) +
          sentence_html(subject.spread, subject.collapsed) + sentence_html(subject.worst, false) +
          sentence_html(subject.one_step, false) +
          sentence_html(subject.nearest, subject.memorised);
  if (runs.size() > 1) html += "<ul>\n";
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Verdict other = verdict_of(runs[i]);
    html += fmt::format(
        "<li>{}For comparison, <b>{}</b>: {} times the floor, <span class=\"tag "
        "{}\">{}</span>. {}</li>\n",
        swatch(i), escape_html(runs[i].label), short_number(runs[i].headline().ratio),
        css_class(other.level), escape_html(other.headline), escape_html(other.nearest));
  }
  if (runs.size() > 1) html += "</ul>\n";
  return html + "</div>";
}

std::string results_html(const std::vector<RunData>& runs) {
  std::string html = fmt::format(
      "<div class=\"scroll\"><table class=\"results\">\n<thead><tr><th>Run</th><th>Distance"
      "<small>{}</small></th><th>Floor</th><th>Ratio to floor<small>95 % interval</small></th>"
      "<th>Spread-skill<small>1 is right</small></th><th>Spread<small>generated / true "
      "std</small></th><th>In words</th></tr></thead>\n<tbody>\n",
      escape_html(name_in_words(runs.front().headline())));
  for (std::size_t i = 0; i < runs.size(); ++i) html += result_row(runs[i], i);
  return html + "</tbody></table></div>";
}

std::string scores_html(const std::vector<RunData>& runs) {
  std::string html = score_table(runs, &RunData::scores, [](const RunData&) { return ""; });
  html += "\n<p class=\"remark\">";
  for (const Level level : {Level::kGood, Level::kClose, Level::kVisible, Level::kBad}) {
    html += fmt::format("<span>{}{}</span>", mark_html(level), in_words(level));
  }
  return html + "</p>";
}

std::string conditional_html(const std::vector<RunData>& runs) {
  const bool any = std::any_of(runs.begin(), runs.end(),
                               [](const RunData& run) { return !run.conditional.empty(); });
  if (!any) return "";
  return score_table(runs, &RunData::conditional, [](const RunData& run) {
    return fmt::format("<small>{} starts</small>", run.groups);
  });
}

std::string gallery_html(const Gallery& gallery) {
  std::string note =
      gallery.note.empty() ? "" : "<p class=\"remark\">" + escape_html(gallery.note) + "</p>\n";
  if (gallery.rows.empty()) return note;
  std::string html =
      fmt::format("<p>{}</p>\n<div class=\"scroll\"><table class=\"gallery {}\">\n<tr>",
                  gallery_caption(gallery), gallery.clouds ? "clouds" : "fields");
  html += gallery.clouds ? "<td></td>" : "";
  for (const std::string& column : gallery.columns) {
    html += fmt::format("<th scope=\"col\">{}</th>", escape_html(column));
  }
  html += "</tr>\n";
  for (std::size_t r = 0; r < gallery.rows.size(); ++r) {
    html += row_heading(gallery, r) + "<tr>" + y_axis_html(gallery);
    for (const GalleryCell& cell : gallery.rows[r].cells) {
      html += "<td>";
      if (!cell.picture.empty()) html += picture_html(cell.picture, cell.alt);
      if (!cell.note.empty()) html += "<small>" + escape_html(cell.note) + "</small>";
      html += "</td>";
    }
    html += "</tr>\n";
  }
  html += footer_row(gallery) + "</table></div>\n";
  if (!gallery.colour_bar.empty()) {
    html += fmt::format("<p class=\"colour-bar\"><span>{}</span>{}<span>{}</span><em>{}</em></p>",
                        escape_html(gallery.colour_low),
                        picture_html(gallery.colour_bar, "Colour scale"),
                        escape_html(gallery.colour_high), escape_html(gallery.colour_name));
  }
  return html + note;
}

std::string configs_html(const std::vector<RunData>& runs) {
  std::string html;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].config.empty()) continue;
    html += fmt::format("<details><summary>{}{}</summary><pre>{}</pre></details>\n", swatch(i),
                        escape_html(runs[i].label), escape_html(runs[i].config));
  }
  return html;
}

}  // namespace slift
