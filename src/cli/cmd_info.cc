#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/command.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "data/normaliser.h"
#include "methods/transition_model.h"
#include "metrics/record.h"
#include "report/preview.h"
#include "report/score.h"
#include "tensor/safetensors.h"
#include "training/checkpoint.h"
#include "training/config.h"

namespace slift::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json describe_trajectories(const fs::path& path, bool stats) {
  const TrajectoryReader reader(path);
  const TrajectoryInfo& info = reader.info();
  json result = {
      {"kind", "trajectories"},          {"members", info.members}, {"steps", info.steps},
      {"state_shape", info.state_shape}, {"dt", info.dt},           {"system", info.system},
      {"boundary", info.boundary},       {"seed", info.seed},       {"fields", info.fields}};
  if (info.first_member != 0) result["first_member"] = info.first_member;
  if (info.branches != 1) result["branches"] = info.branches;
  if (!info.record.empty()) result["record"] = plan_of_records(reader).to_json();
  if (stats) result["stats"] = fit_normaliser(reader, info.members).to_json();
  return result;
}

json describe_safetensors(const fs::path& path) {
  const SafeTensorsHeader header = read_safetensors_header(path);
  std::int64_t parameters = 0;
  for (const auto& [name, entry] : header.entries) {
    std::int64_t count = 1;
    for (const std::int64_t n : entry.shape) count *= n;
    parameters += count;
  }
  json result = {
      {"kind", "safetensors"}, {"tensors", header.entries.size()}, {"parameters", parameters}};
  if (!header.metadata.contains("slift")) return result;
  result["kind"] = "model";
  result["model"] = read_model_spec(path).to_json();
  return result;
}

json describe_config(const fs::path& path) {
  TrainConfig config;
  ConfigSchema schema = config.schema();
  schema.apply_file(path);
  return {{"kind", "config"}, {"config", schema.to_json()}};
}

json describe_metrics_log(const fs::path& path) {
  std::ifstream in(path);
  require(in.good(), "{}: cannot read", path.string());
  std::int64_t lines = 0;
  json last;
  for (std::string line; std::getline(in, line); ++lines) {
    const json entry = json::parse(line, nullptr, false);
    require(entry.is_object(), "{}: line {} is not a JSON object", path.string(), lines + 1);
    last = entry;
  }
  return {{"kind", "metrics"}, {"lines", lines}, {"last", last}};
}

// Scores that can be read, without what is too long to show.
json brief_scores(json scores) {
  read_scores(scores);
  for (json& score : scores) score.erase("over_time");
  return scores;
}

json describe_evaluation(const fs::path& path) {
  const json evaluation = json::parse(read_file(path), nullptr, false);
  require(evaluation.is_object() && evaluation.value("format", "") == "slift-evaluation",
          "{}: not a file that slift writes", path.string());
  require(evaluation.value("version", json()) == 2,
          "{}: version must be 2, got {}; run `slift evaluate` again", path.string(),
          evaluation.value("version", json()).dump());
  json result = {{"kind", "evaluation"}};
  try {
    for (const char* key : {"system", "generated", "truth", "members"}) {
      result[key] = evaluation.at(key);
    }
    result["scores"] = brief_scores(evaluation.at("scores"));
    if (evaluation.contains("conditional")) {
      const json& conditional = evaluation["conditional"];
      result["conditional"] = {{"groups", conditional.at("groups")},
                               {"scores", brief_scores(conditional.at("scores"))}};
    }
    if (evaluation.contains("nearest")) {
      result["nearest"] = evaluation["nearest"];
      for (const char* key : {"members", "fresh_members"}) result["nearest"].erase(key);
    }
  } catch (const json::exception& error) {
    fail("{}: not a readable evaluation: {}", path.string(), error.what());
  }
  return result;
}

json describe_folder(const fs::path& path) {
  if (fs::exists(path / "state.safetensors")) {
    return {{"kind", "checkpoint"}, {"counters", CheckpointFolder::load(path).counters}};
  }
  require(fs::exists(path / "config.toml"), "{}: not a run folder: it has no config.toml",
          path.string());
  const auto newest = CheckpointFolder(path).newest();
  json result = {{"kind", "run"},
                 {"config", describe_config(path / "config.toml")["config"]},
                 {"checkpoint", newest ? json(newest->string()) : json()}};
  for (const char* name : {"model.safetensors", "rollout.h5", "evaluation.json", "report.html"}) {
    result["has"][name] = fs::exists(path / name);
  }
  if (fs::exists(path / "metrics.jsonl")) {
    result["metrics"] = describe_metrics_log(path / "metrics.jsonl");
  }
  return result;
}

json describe(const fs::path& path, bool stats) {
  require(fs::exists(path), "{}: no such file or folder", path.string());
  if (fs::is_directory(path)) return describe_folder(path);
  const std::string kind = path.extension().string();
  if (kind == ".safetensors") return describe_safetensors(path);
  if (kind == ".toml") return describe_config(path);
  if (kind == ".jsonl") return describe_metrics_log(path);
  if (kind == ".json") return describe_evaluation(path);
  return describe_trajectories(path, stats);
}

std::string score_lines(const json& scores, int indent) {
  std::string text = fmt::format("{:{}}{:<44} {:>9} {:>9} {:>9}  95 %\n", "", indent, "", "value",
                                 "floor", "ratio");
  for (const ReportScore& s : read_scores(scores)) {
    const bool known = std::isfinite(s.ratio_low) && std::isfinite(s.ratio_high);
    text += fmt::format(
        "{:{}}{:<44} {:>9} {:>9} {:>9}  {}\n", "", indent, name_in_words(s), short_number(s.value),
        short_number(s.floor), short_number(s.ratio),
        known ? short_number(s.ratio_low) + " to " + short_number(s.ratio_high) : "n/a");
  }
  return text;
}

// Nested objects as indented "key  value" lines, scores as a table.
std::string as_text(const json& object, int indent = 0) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    const std::string pad(static_cast<std::size_t>(indent), ' ');
    if (key == "scores" && value.is_array()) {
      text += fmt::format("{}{}\n{}", pad, key, score_lines(value, indent + 2));
    } else if (value.is_object() && !value.empty()) {
      text += fmt::format("{}{}\n{}", pad, key, as_text(value, indent + 2));
    } else {
      text += fmt::format("{}{:<{}} {}\n", pad, key, std::max(1, 18 - indent),
                          value.is_string() ? value.get<std::string>() : to_text(value));
    }
  }
  return text;
}

}  // namespace

void declare_info(CLI::App& app) {
  struct Options {
    std::string path;
    bool stats = false;
    std::vector<std::string> previews;
  };
  auto o = std::make_shared<Options>();
  app.add_option("path", o->path,
                 "Trajectory file, model, checkpoint or run folder, config, metrics.jsonl, "
                 "evaluation.json")
      ->required();
  app.add_flag("--stats", o->stats, "Trajectories: read all of them and give mean and deviations");
  add_preview_option(app, o->previews);
  app.callback([o] {
    for (const std::string& preview : o->previews) check_preview_path(preview, o->path);
    json result = describe(o->path, o->stats);
    if (!o->previews.empty()) {
      require(result["kind"] == "trajectories",
              "{}: --preview needs a trajectory file, this is: {}", o->path,
              result["kind"].get<std::string>());
      for (const std::string& preview : o->previews) write_preview(o->path, preview);
      result["previews"] = o->previews;
    }
    print_result(result, as_text(result));
  });
}

}  // namespace slift::cli
