// Holds docs/paper.md to the program and the tree: rows, commands, settings, links, names of tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>

#include "core/atomic_file.h"
#include "process.h"

namespace slift::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kRoot = SLIFT_SOURCE_DIR;
const fs::path kPage = kRoot / "docs/paper.md";
constexpr std::size_t kCommands = 40, kTests = 15;  // so many stand on the page at least

// Returns what the first group of the pattern matched, in order.
Words matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Words found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

// Returns the different commands of a program that stand in backticks.
std::set<Words> commands_of(const std::string& program) {
  std::set<Words> commands;
  for (const std::string& code : matches(read_file(kPage), "`([^`]+)`")) {
    if (code.rfind(program + " ", 0) == 0) commands.insert(matches(code, "(\\S+)"));
  }
  return commands;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

// Returns the part of a link after '#' that leads to this heading.
std::string anchor_of(const std::string& heading) {
  std::string anchor = std::regex_replace(heading, std::regex("[^\\w -]"), "");
  for (char& c : anchor) c = c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  return anchor;
}

// Returns the help of a command, asked for once.
const std::string& help_of(const Words& command) {
  static std::map<std::string, std::string> known;
  Words asking = {command[1], "--help"};
  if (command[1] == "bench" && command.size() > 2) asking.insert(asking.begin() + 1, command[2]);
  std::string& help = known[joined(asking)];
  if (help.empty()) help = run_slift(asking).out;
  return help;
}

// Expects that the program takes a `simulate` or `train` command with its values and settings. It
// refuses the first setting it does not know, with nothing done: that must be the one added here.
void expect_settings_are_known(const Words& command) {
  ASSERT_GE(command.size(), 3u) << joined(command);
  Words arguments(command.begin() + 1, command.end());
  if (command[1] == "train") arguments[1] = (kRoot / command[2]).string();
  for (const char* option : {"--out", "--device"}) {  // not every build has cuda
    const auto at = std::find(arguments.begin(), arguments.end(), option);
    if (arguments.end() - at > 1) arguments.erase(at, at + 2);
  }
  arguments.insert(arguments.end(), {"--set", "no.such=0", "--out", "/dev/null/nothing"});
  const auto r = run_slift(arguments);
  EXPECT_EQ(r.exit_code, 2) << joined(command);
  EXPECT_NE(r.err.find("unknown key no.such;"), std::string::npos) << joined(command) << r.err;
}

TEST(Paper, HasARowForEveryFigureTableAndStatement) {
  const std::string page = read_file(kPage);
  Words names = {"Proposition 3.1", "Corollary 3.2", "Proposition 3.3", "Proposition A.1",
                 "Lemma A.2",       "Remark A.3",    "Remark A.4"};
  for (int i = 1; i <= 11; ++i) names.push_back("Figure " + std::to_string(i));
  for (int i = 1; i <= 3; ++i) names.push_back("Table " + std::to_string(i));
  for (const std::string& name : names) {
    EXPECT_TRUE(std::regex_search(page, std::regex("\n\\| " + name + "[:, ]"))) << name;
  }
  for (const std::string& row : matches(page, "\n(\\|[^\n]*)")) {
    EXPECT_EQ(std::count(row.begin(), row.end(), '|'), 5) << "four cells: " << row;
    EXPECT_TRUE(matches(row, "\\| *(\\|)").empty()) << "an empty cell: " << row;
  }
}

TEST(Paper, ProgramAndMakefileTakeEveryCommand) {
  const std::string program_help = run_slift({"--help"}).out;
  const auto commands = commands_of("slift");
  EXPECT_GE(commands.size(), kCommands);
  for (const Words& command : commands) {
    EXPECT_NE(program_help.find("\n  " + command[1] + " "), std::string::npos) << joined(command);
    for (const std::string& word : command) {
      const std::string listed = "(  |,)" + word + "[ ,{\n]";
      EXPECT_TRUE(word[0] != '-' || std::regex_search(help_of(command), std::regex(listed)))
          << joined(command) << "has no " << word;
    }
    if (command[1] == "simulate" || command[1] == "train") expect_settings_are_known(command);
  }
  const std::string makefile = read_file(kRoot / "Makefile");
  for (const Words& command : commands_of("make")) {
    EXPECT_NE(makefile.find("\n" + command[1] + ":"), std::string::npos) << joined(command);
  }
}

TEST(Paper, LinksAndPathsLeadSomewhere) {
  const std::string page = read_file(kPage);
  for (const std::string& link : matches(page, "\\]\\(([^)]+)\\)")) {
    const std::string path = link.substr(0, link.find('#'));
    ASSERT_TRUE(fs::is_regular_file(kPage.parent_path() / path)) << link;
    if (path.size() == link.size()) continue;
    Words anchors = matches(read_file(kPage.parent_path() / path), "\n#+ ([^\n]*)");
    std::transform(anchors.begin(), anchors.end(), anchors.begin(), anchor_of);
    const std::string anchor = link.substr(path.size() + 1);
    EXPECT_EQ(std::count(anchors.begin(), anchors.end(), anchor), 1) << link;
  }
  for (const std::string& path : matches(page, "((?:configs|docs|src|tests)/[\\w./-]*\\w)")) {
    EXPECT_TRUE(fs::exists(kRoot / path)) << path;
  }
}

TEST(Paper, TestsAreInTheFileLinkedBeforeThem) {
  const std::string page = read_file(kPage);
  const std::regex name("\\.\\./([\\w/]+_test\\.cc)\\)|`([A-Z]\\w+)\\.([A-Z]\\w+)`");
  std::string file, content;
  std::size_t count = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), name), end; it != end; ++it) {
    if ((*it)[1].matched) {
      file = (*it)[1], content = read_file(kRoot / file);
    } else {
      const std::string test = it->format("($2, $3)");
      EXPECT_NE(content.find(test), std::string::npos) << test << " is not in " << file;
      ++count;
    }
  }
  EXPECT_GE(count, kTests);
}

}  // namespace
}  // namespace slift::testing
