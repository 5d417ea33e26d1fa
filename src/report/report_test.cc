#include "report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "data/trajectories.h"
#include "report/assets.h"
#include "report/html.h"
#include "report/run_data.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMembers = 40, kSteps = 9;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError";
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::string without_scripts(const std::string& html) {
  std::string rest = html;
  for (std::size_t open; (open = rest.find("<script")) != std::string::npos;) {
    rest.erase(open, rest.find("</script>", open) + 9 - open);
  }
  return rest;
}

std::string section_of(const std::string& html, const std::string& id) {
  const std::size_t open = html.find("<section id=\"" + id + "\"");
  return html.substr(open, html.find("</section>", open) - open);
}

json make_score(const std::string& metric, const std::string& name, double value, double floor) {
  return {{"name", name},
          {"metric", metric},
          {"value", value},
          {"floor", floor},
          {"ratio", value / floor}};
}

class ReportTest : public ::testing::Test {
 protected:
  ReportTest()
      : folder_(fs::temp_directory_path() / ("slift_report_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ReportTest() override { fs::remove_all(folder_); }

  // Smooth made-up trajectories whose spread is proportional to `spread`; of records if `record`
  // is not empty.
  fs::path write_trajectories(const std::string& name, const std::vector<std::int64_t>& shape,
                              double spread, const std::string& record = "") const {
    TrajectoryInfo info;
    info.members = kMembers, info.steps = kSteps, info.state_shape = shape;
    info.dt = 0.5, info.system = "pendulum", info.record = record;
    std::vector<float> states;
    for (std::int64_t i = 0; i < kMembers * info.trajectory_size(); ++i) {
      const std::int64_t member = i / info.trajectory_size();
      const double phase = static_cast<double>(member);
      states.push_back(static_cast<float>(spread * std::sin(phase + 0.1 * static_cast<double>(i))));
    }
    TrajectoryWriter writer(folder_ / name, info);
    writer.write(0, kMembers, states);
    writer.commit();
    return folder_ / name;
  }

  json make_evaluation(const std::vector<std::int64_t>& shape, double ratio, double spread) const {
    std::vector<std::string> fields;
    for (std::int64_t c = 0; c < shape.front(); ++c) fields.push_back("x" + std::to_string(c + 1));
    std::vector<double> time, later, value, floor;
    json truth = json::array(), generated = json::array();
    for (std::int64_t t = 0; t < kSteps; ++t) {
      time.push_back(static_cast<double>(t) / (kSteps - 1));
      truth.push_back(std::vector<double>(fields.size(), 2));
      generated.push_back(std::vector<double>(fields.size(), 2 * spread));
      if (t == 0) continue;
      later.push_back(time.back());
      value.push_back(0.25 * ratio);
      floor.push_back(0.25);
    }
    json headline = make_score(shape.size() == 1 ? "sliced W2" : "W2",
                               shape.size() == 1 ? "state" : "mean |x|", 0.25 * ratio, 0.25);
    headline["over_time"] = {{"time", later}, {"value", value}, {"floor", floor}};
    return {{"format", "slift-evaluation"},
            {"version", 2},
            {"system", "pendulum"},
            {"generated", (folder_ / "generated.h5").string()},
            {"truth", (folder_ / "truth.h5").string()},
            {"members", 20},
            {"cuts", 8},
            {"bootstrap", 0},
            {"scores", json::array({headline})},
            {"moments",
             {{"time", time},
              {"fields", fields},
              {"generated_members", kMembers},
              {"truth_members", kMembers},
              {"truth", {{"mean", truth}, {"std", truth}}},
              {"generated", {{"mean", truth}, {"std", generated}}}}}};
  }

  ReportRun make_run(const std::string& label, const std::string& name, const json& evaluation,
                     bool with_metrics = true) const {
    const fs::path run = folder_ / name;
    write_file_atomically(run / "evaluation.json", evaluation.dump());
    write_file_atomically(run / "config.toml", "[net]\nkind = \"mlp\" # <b>{{css}}\n");
    if (with_metrics) {
      write_file_atomically(run / "metrics.jsonl",
                            "{\"step\": 10, \"loss\": 0.5}\n{\"step\": 20, \"loss\": 0.125}\n");
    }
    return {label, run, {}};
  }

  ReportRun make_vector_run(double ratio = 1.2, double spread = 1) const {
    write_trajectories("truth.h5", {2}, 1);
    write_trajectories("generated.h5", {2}, 1.2);
    return make_run("lifting", "run", make_evaluation({2}, ratio, spread));
  }

  std::string report_of(const std::vector<ReportRun>& runs) const {
    write_report(runs, folder_ / "report.html");
    return read_file(folder_ / "report.html");
  }

  fs::path folder_;
};

void expect_self_contained(const std::string& html) {
  const std::string visible = without_scripts(html);
  const std::regex load("(src|href)\\s*=\\s*[\"']?\\s*(https?:)?//", std::regex::icase);
  EXPECT_FALSE(std::regex_search(visible, load));
  EXPECT_EQ(visible.find("url("), std::string::npos);
  EXPECT_EQ(visible.find("@import"), std::string::npos);
  EXPECT_EQ(visible.find("{{"), std::string::npos);
  EXPECT_EQ(count_of(html, "<script"), count_of(html, "</script>"));
}

json data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"report-data\">";
  const std::size_t first = html.find(open) + open.size();
  return json::parse(html.substr(first, html.find("</script>", first) - first));
}

TEST_F(ReportTest, SingleVectorRun) {
  const std::string html = report_of({make_vector_run()});
  expect_self_contained(html);
  EXPECT_NE(html.find("<title>pendulum: lifting</title>"), std::string::npos);
  EXPECT_NE(html.find("indistinguishable from sampling noise"), std::string::npos);
  EXPECT_NE(html.find("alt=\"Cloud of truth at t = 0.0: x2 against x1\""), std::string::npos);
  EXPECT_EQ(count_of(html, "<img src=\"data:image/png;base64,"), 2U * 6U + 1U);
  EXPECT_NE(html.find("of 40 outside"), std::string::npos);  // generated is 1.2 times wider
  const json data = data_of(html);
  EXPECT_EQ(data["end_time"], 4.0);
  EXPECT_EQ(data["runs"][0]["evaluation"]["scores"][0]["ratio"], 1.2);
  EXPECT_EQ(data["runs"][0]["trained"], true);
  EXPECT_EQ(data["distance_name"], "sliced W2 of the state");
  EXPECT_EQ(data["runs"][0]["loss"]["value"], json({0.5, 0.125}));
}

TEST_F(ReportTest, ComparesRunsAndShowsACollapse) {
  const ReportRun good = make_vector_run();
  const ReportRun flat = make_run("deterministic", "flat", make_evaluation({2}, 20, 0.3), false);
  const std::string html = report_of({good, flat});
  expect_self_contained(html);
  EXPECT_NE(html.find("not to be trusted, collapsed towards the mean"), std::string::npos);
  EXPECT_NE(html.find("<div class=\"verdict good\">"), std::string::npos);
  EXPECT_EQ(count_of(html, "<img src=\"data:image/png;base64,"), 3U * 6U + 1U);
  EXPECT_TRUE(data_of(html)["runs"][1]["loss"]["step"].empty());
}

TEST_F(ReportTest, FieldsBecomePictures) {
  for (const std::int64_t channels : {1, 2, 3}) {
    write_trajectories("truth.h5", {channels, 6, 8}, 1);
    write_trajectories("generated.h5", {channels, 6, 8}, 1);
    const ReportRun run = make_run("unet", "run", make_evaluation({channels, 6, 8}, 2, 1));
    const std::string html = report_of({run});
    expect_self_contained(html);
    EXPECT_NE(html.find("<body class=\"field\">"), std::string::npos);
    EXPECT_NE(html.find("W2 of mean |x| (WIM)"), std::string::npos);
    EXPECT_NE(html.find("alt=\"unet at t = 4.0, member 0\""), std::string::npos);
    EXPECT_EQ(count_of(html, "<img "), channels == 3 ? 12U : 13U);
  }
}

TEST_F(ReportTest, SingleComponentIsShownAgainstItsPast) {
  write_trajectories("truth.h5", {1}, 1);
  write_trajectories("generated.h5", {1}, 1);
  const std::string html = report_of({make_run("a", "run", make_evaluation({1}, 1, 1))});
  EXPECT_NE(html.find("x1 against x1 one step before"), std::string::npos);
}

TEST_F(ReportTest, LabelsAndConfigsCannotBreakThePage) {
  ReportRun run = make_vector_run();
  const std::string plain = report_of({run});
  run.label = "</script><script>alert(1)</script>\"' {{css}} \xff";
  const std::string html = report_of({run});
  expect_self_contained(html);
  EXPECT_EQ(count_of(html, "<script"), count_of(plain, "<script"));
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("# <b>"), std::string::npos);
  EXPECT_EQ(data_of(html)["runs"][0]["label"].get<std::string>().substr(0, 17),
            "</script><script>");
}

TEST_F(ReportTest, PathsMayBeRelativeToTheRun) {
  const ReportRun run = make_vector_run();
  json evaluation = make_evaluation({2}, 1, 1);
  evaluation["generated"] = "elsewhere/generated.h5";
  fs::copy_file(folder_ / "generated.h5", run.folder / "generated.h5");
  make_run("lifting", "run", evaluation);
  EXPECT_NO_THROW(report_of({run}));
}

TEST_F(ReportTest, ErrorsNameTheFile) {
  const ReportRun run = make_vector_run();
  const fs::path out = folder_ / "report.html";
  const auto error = [&] { return message_of([&] { write_report({run}, out); }); };
  EXPECT_NE(message_of([&] { write_report({}, out); }).find("at least one run"), std::string::npos);

  fs::remove(folder_ / "generated.h5");
  EXPECT_NE(error().find((folder_ / "generated.h5").string()), std::string::npos) << error();
  json old = make_evaluation({2}, 1, 1);
  old["version"] = 1;
  write_file_atomically(run.folder / "evaluation.json", old.dump());
  EXPECT_NE(error().find("version must be 2, got 1; run `slift evaluate` again"), std::string::npos)
      << error();
  write_file_atomically(run.folder / "evaluation.json", "{\"format\": ");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  write_file_atomically(run.folder / "evaluation.json", "{\"format\": \"other\"}");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  fs::remove(run.folder / "evaluation.json");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  EXPECT_NE(error().find("slift evaluate"), std::string::npos) << error();
  EXPECT_FALSE(fs::exists(out));
}

// As if only the first `steps` states had been compared.
void shorten(json& evaluation, std::int64_t steps) {
  json& moments = evaluation["moments"];
  for (json* table : {&moments["time"], &moments["truth"]["mean"], &moments["truth"]["std"],
                      &moments["generated"]["mean"], &moments["generated"]["std"]}) {
    table->erase(table->begin() + steps, table->end());
  }
}

TEST_F(ReportTest, RefusesRunsOverAnotherTime) {
  const ReportRun run = make_vector_run();
  json evaluation = make_evaluation({2}, 1, 1);
  shorten(evaluation, kSteps - 2);
  ReportRun shorter = make_run("shorter", "shorter", evaluation);
  shorter.evaluation = shorter.folder / "evaluation.json";
  const std::string error = message_of([&] { report_of({run, shorter}); });
  EXPECT_NE(error.find("shorter: its evaluation compares"), std::string::npos) << error;
  EXPECT_EQ(message_of([&] { report_of({shorter, shorter}); }), "no UserError");
}

TEST_F(ReportTest, RefusesAnEvaluationOfAnotherRollout) {
  const ReportRun run = make_vector_run();
  const auto error_with = [&](const char* key, std::int64_t members, std::int64_t steps) {
    json evaluation = make_evaluation({2}, 1, 1);
    evaluation["moments"][key] = members;
    shorten(evaluation, steps);
    make_run("lifting", "run", evaluation);
    return message_of([&] { report_of({run}); });
  };
  EXPECT_EQ(error_with("generated_members", kMembers, kSteps), "no UserError");
  const std::string members = error_with("generated_members", 7, kSteps);
  EXPECT_NE(members.find("evaluation.json: is of another rollout"), std::string::npos) << members;
  EXPECT_NE(members.find("run `slift evaluate` again"), std::string::npos) << members;
  const std::string steps = error_with("generated_members", kMembers, kSteps - 2);
  EXPECT_NE(steps.find("evaluation.json: is of another rollout"), std::string::npos) << steps;
  const std::string truth = error_with("truth_members", 7, kSteps);
  EXPECT_NE(truth.find("evaluation.json: is of another truth"), std::string::npos) << truth;
}

TEST_F(ReportTest, RefusesRunsOfAnotherShape) {
  const ReportRun run = make_vector_run();
  write_trajectories("other.h5", {3}, 1);
  json evaluation = make_evaluation({2}, 1, 1);
  evaluation["generated"] = (folder_ / "other.h5").string();
  const ReportRun other = make_run("other", "other", evaluation);
  const std::string error = message_of([&] { write_report({run, other}, folder_ / "r.html"); });
  EXPECT_NE(error.find("other.h5"), std::string::npos) << error;
}

TEST_F(ReportTest, AllScoresAreInOneTable) {
  const ReportRun first = make_vector_run();
  json evaluation = make_evaluation({2}, 1.2, 1);
  json& scores = evaluation["scores"];
  scores.push_back(make_score("W2 of crossing times", "corner <b>", 0.4, 0.1));
  scores.back()["never_generated"] = 0.25;
  scores.back()["never_truth"] = 0.125;
  scores.back()["ratio_interval"] = {3.5, 4.5};
  scores.push_back(make_score("exact W2", "state", 0.3, 0.2));
  scores.back()["points"] = 512;
  scores.push_back(make_score("spread-skill ratio", "state", 0.75, 0.01));
  make_run("lifting", "run", evaluation);
  json other = make_evaluation({2}, 1.2, 1);
  other["scores"][0]["floor"] = 0.5;
  other["scores"].push_back(make_score("fair CRPS", "state", 1.5, 1));
  const std::string table =
      section_of(report_of({first, make_run("other", "other", other)}), "scores");
  const auto row = [&](const std::string& name) {
    const std::size_t open = table.find("<th scope=\"row\">" + name);
    EXPECT_NE(open, std::string::npos) << name;
    return table.substr(open, table.find("</tr>", open) - open);
  };
  EXPECT_EQ(count_of(table, "<tr><th scope=\"row\">"), 5U);
  const std::string crossing = row("W2 of crossing times of corner &lt;b&gt; (WCT)");
  EXPECT_NE(crossing.find("<td class=\"number\">0.1</td>"), std::string::npos);
  EXPECT_NE(crossing.find("class=\"mark visible\""), std::string::npos);
  EXPECT_NE(crossing.find("3.5 to 4.5<br>never: 25 %<br>truth: 12.5 %"), std::string::npos);
  EXPECT_EQ(count_of(crossing, "not computed"), 1U);
  EXPECT_NE(row("exact W2 of the state").find("512 points"), std::string::npos);
  EXPECT_NE(row("spread-skill ratio of the state").find("class=\"mark close\""), std::string::npos);
  EXPECT_NE(row("fair CRPS of the state").find("class=\"mark bad\""), std::string::npos);
  EXPECT_EQ(count_of(row("sliced W2 of the state"), "floor 0.5"), 1U);
  EXPECT_EQ(count_of(table, "class=\"swatch run-1\""), 1U);
  EXPECT_NE(section_of(report_of({first}), "verdict").find("the worst is the W2 of crossing times"),
            std::string::npos);
}

TEST_F(ReportTest, NumbersMayBeNull) {
  const ReportRun run = make_vector_run();
  json evaluation = make_evaluation({2}, 1, 1);
  for (const char* key : {"value", "floor", "ratio"}) evaluation["scores"][0][key] = nullptr;
  evaluation["scores"][0]["over_time"]["floor"][0] = nullptr;
  evaluation["scores"].push_back(make_score("fair CRPS", "state", 0.5, 0.5));
  evaluation["scores"][1]["floor"] = evaluation["scores"][1]["ratio"] = nullptr;
  evaluation["moments"]["generated"]["std"][3][0] = nullptr;
  make_run("lifting", "run", evaluation);
  const std::string html = report_of({run});
  expect_self_contained(html);
  EXPECT_NE(html.find("<div class=\"verdict unknown\">"), std::string::npos);
  EXPECT_EQ(count_of(section_of(html, "scores"), "<span class=\"mark\"></span>"), 2U);
  EXPECT_EQ((section_of(html, "verdict") + section_of(html, "numbers")).find("nan"),
            std::string::npos);
}

TEST_F(ReportTest, CommonStartsHaveATableOfTheirOwn) {
  const ReportRun run = make_vector_run();
  EXPECT_NE(section_of(report_of({run}), "conditional").find(" hidden>"), std::string::npos);
  json evaluation = make_evaluation({2}, 1, 1);
  evaluation["conditional"] = {
      {"groups", 17}, {"scores", json::array({make_score("spread-skill ratio", "state", 0.2, 1)})}};
  make_run("lifting", "run", evaluation);
  const std::string html = report_of({run});
  const std::string section = section_of(html, "conditional");
  EXPECT_EQ(section.find(" hidden>"), std::string::npos);
  EXPECT_NE(section.find("17 starts"), std::string::npos);
  EXPECT_NE(section.find("class=\"mark bad\""), std::string::npos);
  EXPECT_EQ(section_of(html, "scores").find("spread-skill"), std::string::npos);
  EXPECT_NE(html.find("but collapsed towards the mean"), std::string::npos);
}

TEST_F(ReportTest, SaysWhetherMembersWereMemorised) {
  const ReportRun run = make_vector_run();
  json evaluation = make_evaluation({2}, 1, 1);
  evaluation["nearest"] = {{"value", 0.125}, {"floor", 1},           {"ratio", 0.125},
                           {"copied", 0.5},  {"copied_floor", 0.25}, {"memorising", true}};
  const ReportRun other = make_run("other", "other", evaluation);
  EXPECT_NE(report_of({run, other}).find("50 % look copied (fresh truth: 25 %).</li>"),
            std::string::npos);
  EXPECT_NE(report_of({other}).find("<p class=\"alarm\">Memorisation check: memorising. Its "
                                    "members are 0.125 times"),
            std::string::npos);
  evaluation["nearest"] = {{"value", 0.75}, {"copied", 0}};
  make_run("other", "other", evaluation);
  EXPECT_NE(report_of({other}).find("<p>Memorisation check: no fresh truth to compare with. Its "
                                    "members are 0.75 times"),
            std::string::npos);
}

TEST_F(ReportTest, RecordsHaveNoPictures) {
  const ReportRun run = make_vector_run();
  json evaluation = make_evaluation({2}, 1, 1);
  evaluation["generated"] = write_trajectories("records.h5", {7}, 1, "{}").string();
  const ReportRun records = make_run("large", "large", evaluation);
  const std::string html = report_of({records, run});
  expect_self_contained(html);
  const std::string pictures = section_of(html, "pictures");
  EXPECT_NE(pictures.find("No pictures of large: rolled out with --no-states."), std::string::npos);
  EXPECT_EQ(count_of(pictures, "<img "), 2U * 6U + 1U);
  EXPECT_NE(pictures.find("<span class=\"swatch run-1\"></span>lifting"), std::string::npos);
  EXPECT_EQ(pictures.find("Cloud of large"), std::string::npos);
  EXPECT_EQ(data_of(html)["end_time"], 4.0);

  evaluation = make_evaluation({1, 6, 8}, 1, 1);
  evaluation["truth"] = evaluation["generated"] = (folder_ / "records.h5").string();
  const std::string without = report_of({make_run("large", "large", evaluation)});
  EXPECT_NE(without.find("the truth holds records, not states"), std::string::npos);
  EXPECT_NE(without.find("<body class=\"field\">"), std::string::npos);
  EXPECT_EQ(count_of(without, "<img "), 0U);
}

TEST_F(ReportTest, PlainDataSetsHaveNoConfigAndNoLoss) {
  const ReportRun run = make_vector_run();
  const fs::path evaluation = folder_ / "elsewhere" / "data.json";
  write_file_atomically(evaluation, make_evaluation({2}, 1, 1).dump());
  const ReportRun data{"data set", "", evaluation};
  const std::string both = report_of({run, data});
  EXPECT_EQ(count_of(both, "<details>"), 1U);
  EXPECT_EQ(section_of(both, "configs").find(" hidden>"), std::string::npos);
  EXPECT_EQ(data_of(both)["runs"][1]["trained"], false);
  EXPECT_TRUE(data_of(both)["runs"][1]["loss"]["step"].empty());
  const std::string alone = report_of({data});
  expect_self_contained(alone);
  EXPECT_NE(section_of(alone, "configs").find(" hidden>"), std::string::npos);
  EXPECT_EQ(count_of(alone, "href=\"#configs\" hidden>"), 1U);

  fs::remove(evaluation);
  const std::string error = message_of([&] { write_report({data}, folder_ / "r.html"); });
  EXPECT_NE(error.find("data.json"), std::string::npos) << error;
}

TEST_F(ReportTest, TablesMustHaveTheirShape) {
  const ReportRun run = make_vector_run();
  const auto error = [&](const std::function<void(json&)>& spoil) {
    json evaluation = make_evaluation({2}, 1, 1);
    evaluation["quantiles"] = {
        {"levels", {0.05, 0.5, 0.95}},
        {"time", {0, 1}},
        {"tables", {{{"name", "x1"}, {"generated", {{1, 2, 3}, {1, 2, 3}}}}}}};
    evaluation["quantiles"]["tables"][0]["truth"] = {{1, 2, 3}, {1, 2, nullptr}};
    evaluation["spectra"] = {{{"field", "u"}, {"time", {1}}}};
    evaluation["spectra"][0]["truth"] = evaluation["spectra"][0]["generated"] =
        json::array({{1, 2, 3, 4}});
    spoil(evaluation);
    make_run("lifting", "run", evaluation);
    return message_of([&] { report_of({run}); });
  };
  EXPECT_EQ(error([](json&) {}), "no UserError");
  const auto expect_error = [&](const std::function<void(json&)>& spoil, const char* expected) {
    const std::string message = error(spoil);
    EXPECT_NE(message.find("evaluation.json: " + std::string(expected)), std::string::npos)
        << message;
  };
  expect_error([](json& e) { e["moments"]["truth"]["std"].erase(0); },
               "moments.truth.std is not a table of 9 rows and 2 columns");
  expect_error([](json& e) { e["quantiles"]["tables"][0]["truth"][1].erase(0); },
               "quantiles of x1, truth is not a table of 2 rows and 3 columns");
  expect_error([](json& e) { e["spectra"][0]["generated"][0].push_back(5); },
               "spectra of u, generated is not a table of 1 rows and 4 columns");
  expect_error([](json& e) { e["scores"] = json::array(); }, "has no scores");
  expect_error([](json& e) { e["scores"][0].erase("floor"); }, "not a readable evaluation");
}

TEST_F(ReportTest, LossesSurviveResumesAndACutLine) {
  const fs::path file = folder_ / "metrics.jsonl";
  write_file_atomically(
      file,
      "{\"step\":1,\"loss\":8}\n{\"step\":2,\"loss\":7}\n{\"step\":3,\"loss\":6}\n"
      "{\"step\":2,\"loss\":4}\n{\"step\":3,\"loss\":null}\n\n"
      "{\"step\":4,\"loss\":2}\n{\"step\":5,\"lo");
  const LossCurve all = load_log(file, 100).loss;
  EXPECT_EQ(all.step, (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(all.loss, (std::vector<double>{8, 4, 2}));
  const LossCurve thinned = load_log(file, 2).loss;
  EXPECT_EQ(thinned.step, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(thinned.loss, (std::vector<double>{6, 2}));
  write_file_atomically(file, "{\"step\":1,\n{\"step\":2,\"loss\":1}\n");
  EXPECT_NE(message_of([&] { load_log(file, 9); }).find("line 1"), std::string::npos);
  write_file_atomically(file, "{\"step\":1}\n{\"step\":2,\"gauge\":{\"steps\":[3]}}\n");
  EXPECT_NE(message_of([&] { load_log(file, 9); }).find("line 2"), std::string::npos);
}

TEST_F(ReportTest, TheLastReadingOfTheGaugeIsShown) {
  const ReportRun run = make_vector_run();
  const auto reading = [](double spread) { return json{{"spread", spread}, {"conditional", 0.5}}; };
  json gauge = reading(0.4);
  gauge["verdict"] = "interpolating";
  gauge["held_out"] = reading(0.1);
  for (const int t : {0, 7}) {
    json step = reading(0.25);
    step["t"] = t, step["held_out"] = reading(t == 0 ? 0.05 : 0.5);
    gauge["steps"].push_back(step);
  }
  json older = gauge;
  older["verdict"] = "not yet interpolating";
  write_file_atomically(run.folder / "metrics.jsonl",
                        json{{"step", 1}, {"loss", 1}, {"gauge", older}}.dump() + "\n" +
                            json{{"step", 2}, {"loss", 1}, {"gauge", gauge}}.dump() + "\n" +
                            "{\"step\": 3, \"loss\": 1}\n");
  const std::string html = report_of({run});
  EXPECT_NE(
      html.find("One step ahead, on held-out windows, it is interpolating: fresh labels spread "
                "0.2 of their error (1 is right)."),
      std::string::npos);
  const json drawn = data_of(html).at("runs")[0].at("gauge");
  EXPECT_EQ(drawn.at("t"), json({0, 7}));
  EXPECT_EQ(drawn.at("training"), json({0.5, 0.5}));
  EXPECT_EQ(drawn.at("held_out"), json({0.1, 1.0}));
}

TEST(Html, FillsEachPlaceholderOnce) {
  EXPECT_EQ(fill_template("<{{a}}|{{b}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}|2>");
  EXPECT_THROW(fill_template("{{c}}", {}), std::logic_error);
  EXPECT_EQ(code_for_script("a = '</script>'"), "a = '<\\/script>'");
}

TEST(Assets, EveryChartHasItsSectionAndItsLink) {
  const std::string page(assets::report_html), code(assets::report_js);
  const std::regex chart("data-charts=\"([a-z]+)\"");
  std::size_t charts = 0;
  for (std::sregex_iterator m(page.begin(), page.end(), chart), end; m != end; ++m, ++charts) {
    const std::string name = (*m)[1];
    EXPECT_EQ(count_of(page, "<section id=\"" + name + "\" hidden>"), 1U) << name;
    EXPECT_EQ(count_of(page, fmt::format("href=\"#{0}\" data-chart-link=\"{0}\"", name)), 1U)
        << name;
    EXPECT_NE(code.find("(\"" + name + "\""), std::string::npos) << name;
  }
  EXPECT_EQ(charts, 8U);
}

TEST(Assets, AreThere) {
  EXPECT_EQ(assets::report_html.substr(0, 15), "<!doctype html>");
  EXPECT_NE(assets::report_js.find("report-data"), std::string_view::npos);
  EXPECT_NE(assets::report_css.find("--run-0"), std::string_view::npos);
}

}  // namespace
}  // namespace slift
