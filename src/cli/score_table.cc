#include "cli/score_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace slift::cli {
namespace {

std::string number(double value, const char* format = "{:.4g}") {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

std::string interval(const Score& score) {
  if (!score.ratio_interval) return "";
  return fmt::format("{:.2f} to {:.2f}", score.ratio_interval->low, score.ratio_interval->high);
}

std::size_t title_width(const std::vector<Score>& scores) {
  std::size_t width = 28;
  for (const Score& score : scores) width = std::max(width, score.title().size());
  return width;
}

std::string table(const std::string& what, const std::vector<Score>& scores, std::size_t width) {
  std::string text = fmt::format("{:<{}} {:>10} {:>10} {:>8}   {}\n", what, width, "value", "floor",
                                 "ratio", "95 % of ratio");
  for (const Score& score : scores) {
    text +=
        fmt::format("{:<{}} {:>10} {:>10} {:>8}   {}\n", score.title(), width, number(score.value),
                    number(score.floor), number(score.ratio(), "{:.2f}"), interval(score));
  }
  return text;
}

}  // namespace

std::string score_table(const Evaluation& e) {
  const std::size_t width = title_width(e.scores);
  std::string text = table(fmt::format("{} vs {} members", e.members, e.members), e.scores, width);
  if (e.branch_groups == 0) return text;
  return text +
         table(fmt::format("from the same {} states", e.branch_groups), e.conditional, width);
}

std::string comparison_table(const std::vector<std::string>& labels,
                             const std::vector<Evaluation>& evaluations) {
  const std::size_t width = title_width(evaluations.front().scores);
  std::string text = fmt::format("{:<{}} {:>10}", "value (ratio to the floor)", width, "floor");
  for (const std::string& label : labels) text += fmt::format(" {:>20}", label.substr(0, 20));
  text += "\n";
  for (const Score& first : evaluations.front().scores) {
    text += fmt::format("{:<{}} {:>10}", first.title(), width, number(first.floor));
    for (const Evaluation& e : evaluations) {
      const Score* score = e.find(first.metric, first.name);
      text +=
          fmt::format(" {:>20}", score == nullptr ? "-"
                                                  : fmt::format("{} ({})", number(score->value),
                                                                number(score->ratio(), "{:.2f}")));
    }
    text += "\n";
  }
  return text;
}

}  // namespace slift::cli
