#include "report/report.h"

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
#include "report/verdict.h"

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

class ReportTest : public ::testing::Test {
 protected:
  ReportTest()
      : folder_(fs::temp_directory_path() / ("slift_report_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ReportTest() override { fs::remove_all(folder_); }

  // Smooth made-up trajectories whose spread is proportional to `spread`.
  fs::path write_trajectories(const std::string& name, const std::vector<std::int64_t>& shape,
                              double spread) const {
    TrajectoryInfo info;
    info.members = kMembers, info.steps = kSteps, info.state_shape = shape;
    info.dt = 0.5, info.system = "pendulum";
    std::vector<float> states;
    for (std::int64_t i = 0; i < kMembers * info.trajectory_size(); ++i) {
      const double phase = static_cast<double>(i / info.trajectory_size());
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
    return {{"format", "slift-evaluation"},
            {"version", 1},
            {"system", "pendulum"},
            {"generated", (folder_ / "generated.h5").string()},
            {"truth", (folder_ / "truth.h5").string()},
            {"members", 20},
            {"quantity", shape.size() == 1 ? "state" : "mean |x|"},
            {"sliced_w2",
             {{"value", 0.25 * ratio},
              {"floor", 0.25},
              {"ratio", ratio},
              {"over_time", {{"time", later}, {"value", value}, {"floor", floor}}}}},
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
    return {label, run};
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
  EXPECT_EQ(data["runs"][0]["evaluation"]["sliced_w2"]["ratio"], 1.2);
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
    EXPECT_NE(html.find("W2 of mean |x|"), std::string::npos);
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
  fs::remove(run.folder / "config.toml");
  EXPECT_NE(error().find("config.toml"), std::string::npos) << error();
  write_file_atomically(run.folder / "evaluation.json", "{\"format\": ");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  write_file_atomically(run.folder / "evaluation.json", "{\"format\": \"other\"}");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  fs::remove(run.folder / "evaluation.json");
  EXPECT_NE(error().find("evaluation.json"), std::string::npos) << error();
  EXPECT_NE(error().find("slift evaluate"), std::string::npos) << error();
  EXPECT_FALSE(fs::exists(out));
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

TEST_F(ReportTest, VerdictFollowsRatioAndSpread) {
  const auto verdict = [&](double ratio, double spread) {
    return verdict_of(load_run(make_vector_run(ratio, spread)));
  };
  EXPECT_EQ(verdict(1.5, 1).level, Level::kGood);
  EXPECT_EQ(verdict(3.5, 1).level, Level::kClose);
  EXPECT_EQ(verdict(10, 1).level, Level::kVisible);
  EXPECT_EQ(verdict(10.1, 1).level, Level::kBad);
  EXPECT_EQ(verdict(std::nan(""), 1).level, Level::kUnknown);
  EXPECT_FALSE(verdict(1, 0.51).collapsed);
  EXPECT_TRUE(verdict(1, 0.49).collapsed);
  EXPECT_EQ(verdict(1, 0.49).level, Level::kBad);
  EXPECT_NE(verdict(1, 2).spread.find("Too wide"), std::string::npos);
}

TEST_F(ReportTest, LossesSurviveResumesAndACutLine) {
  const fs::path file = folder_ / "metrics.jsonl";
  write_file_atomically(
      file,
      "{\"step\":1,\"loss\":8}\n{\"step\":2,\"loss\":7}\n{\"step\":3,\"loss\":6}\n"
      "{\"step\":2,\"loss\":4}\n{\"step\":3,\"loss\":null}\n\n"
      "{\"step\":4,\"loss\":2}\n{\"step\":5,\"lo");
  const LossCurve all = load_losses(file, 100);
  EXPECT_EQ(all.step, (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(all.loss, (std::vector<double>{8, 4, 2}));
  const LossCurve thinned = load_losses(file, 2);
  EXPECT_EQ(thinned.step, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(thinned.loss, (std::vector<double>{6, 2}));
  write_file_atomically(file, "{\"step\":1,\n{\"step\":2,\"loss\":1}\n");
  EXPECT_NE(message_of([&] { load_losses(file, 9); }).find("line 1"), std::string::npos);
}

TEST(Html, FillsEachPlaceholderOnce) {
  EXPECT_EQ(fill_template("<{{a}}|{{b}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}|2>");
  EXPECT_THROW(fill_template("{{c}}", {}), std::logic_error);
  EXPECT_EQ(code_for_script("a = '</script>'"), "a = '<\\/script>'");
}

TEST(Assets, AreThere) {
  EXPECT_EQ(assets::report_html.substr(0, 15), "<!doctype html>");
  EXPECT_NE(assets::report_js.find("report-data"), std::string_view::npos);
  EXPECT_NE(assets::report_css.find("--run-0"), std::string_view::npos);
}

}  // namespace
}  // namespace slift
