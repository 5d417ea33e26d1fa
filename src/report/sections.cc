#include "report/sections.h"

#include <fmt/format.h>

#include <cmath>

#include "report/html.h"
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

std::string picture_html(const std::string& png, const std::string& alt) {
  return fmt::format("<img src=\"data:image/png;base64,{}\" alt=\"{}\">", encode_base64(png),
                     escape_html(alt));
}

std::string spread_text(const Spread& spread) {
  if (!std::isfinite(spread.smallest)) return "n/a";
  const std::string low = short_number(spread.smallest), high = short_number(spread.largest);
  return low == high ? low : low + " to " + high;
}

std::string exact_html(const RunData& run) {
  if (!std::isfinite(run.exact.value)) return "<td class=\"absent\">not computed</td>";
  return fmt::format("<td class=\"number\">{}<small>floor {}, {} points</small></td>",
                     short_number(run.exact.value), short_number(run.exact.floor),
                     run.exact_points);
}

std::string result_row(const RunData& run, std::size_t index) {
  const Verdict verdict = verdict_of(run);
  return fmt::format(
      "<tr><th scope=\"row\">{}{}</th>"
      "<td class=\"number\">{}<small>{}</small></td>"
      "<td class=\"number\">{}</td>"
      "<td class=\"number\"><b>{}</b><small>{}</small></td>"
      "{}<td class=\"number{}\">{}</td><td><span class=\"tag {}\">{}</span></td></tr>\n",
      swatch(index), escape_html(run.label), short_number(run.sliced.value),
      interval_html(run.sliced.low, run.sliced.high), short_number(run.sliced.floor),
      short_number(run.sliced.ratio), interval_html(run.sliced.ratio_low, run.sliced.ratio_high),
      exact_html(run), verdict.collapsed ? " alarm" : "", spread_text(run.spread),
      css_class(verdict.level), escape_html(verdict.headline));
}

// A line with the row's name above its pictures, as wide as the table.
std::string row_heading(const Gallery& gallery, std::size_t row) {
  const std::string mark = row == 0 ? "<span class=\"swatch truth\"></span>" : swatch(row - 1);
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

std::string distance_name(const RunData& run) {
  return run.quantity == "state" ? "sliced W2" : "W2 of " + run.quantity;
}

std::string verdict_html(const std::vector<RunData>& runs) {
  const Verdict subject = verdict_of(runs.front());
  std::string html =
      fmt::format("<div class=\"verdict {}\">\n<p class=\"headline\">{}: {}.</p>\n<p>{}</p>\n",
                  css_class(subject.level), escape_html(runs.front().label),
                  escape_html(subject.headline), escape_html(subject.distance));
  if (!subject.spread.empty()) {
    html += fmt::format("<p{}>{}</p>\n", subject.collapsed ? " class=\"alarm\"" : "",
                        escape_html(subject.spread));
  }
  if (runs.size() > 1) html += "<ul>\n";
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Verdict other = verdict_of(runs[i]);
    html += fmt::format(
        "<li>{}For comparison, <b>{}</b>: {} times the floor, <span class=\"tag "
        "{}\">{}</span>.</li>\n",
        swatch(i), escape_html(runs[i].label), short_number(runs[i].sliced.ratio),
        css_class(other.level), escape_html(other.headline));
  }
  if (runs.size() > 1) html += "</ul>\n";
  return html + "</div>";
}

std::string results_html(const std::vector<RunData>& runs) {
  std::string html = fmt::format(
      "<div class=\"scroll\"><table class=\"results\">\n<thead><tr><th>Run</th><th>Distance ({})"
      "<small>95 % interval</small></th><th>Floor</th><th>Ratio to floor<small>95 % "
      "interval</small>"
      "</th><th>Exact W2</th><th>Spread<small>generated / true std</small></th><th>In words</th>"
      "</tr></thead>\n<tbody>\n",
      escape_html(distance_name(runs.front())));
  for (std::size_t i = 0; i < runs.size(); ++i) html += result_row(runs[i], i);
  return html + "</tbody></table></div>";
}

std::string gallery_html(const Gallery& gallery) {
  if (gallery.rows.empty()) return "<p>No pictures: there is a single state.</p>";
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
  return html;
}

std::string configs_html(const std::vector<RunData>& runs) {
  std::string html;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format("<details><summary>{}{}</summary><pre>{}</pre></details>\n", swatch(i),
                        escape_html(runs[i].label), escape_html(runs[i].config));
  }
  return html;
}

}  // namespace slift
