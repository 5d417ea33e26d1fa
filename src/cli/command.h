// One subcommand of `slift`: a function that declares its options and what to run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slift::cli {

struct Command {
  const char* name;
  const char* summary;
  const char* example;  // shown by --help
  void (*declare)(CLI::App& app);
};

// All commands, in the order of `slift --help`.
const std::vector<Command>& commands();

// Flags every command has; applied before a command runs.
struct CommonFlags {
  bool quiet = false, json = false;
  std::int64_t threads = 0;
};
CommonFlags& common_flags();

// JSON as text; bytes of file names that are no UTF-8 are replaced, for JSON cannot hold them.
std::string to_text(const nlohmann::json& value, int indent = -1);

// Ends a command: with --json one line of JSON on standard output, otherwise `text` (if any).
void print_result(const nlohmann::json& result, const std::string& text);

// A run folder's model file, or the path itself if it is a file.
std::string model_path(const std::string& run_or_file);

// A run folder's rollout.h5, which must be there, or the path itself if it is a file.
std::string rollout_path(const std::string& run_or_file);

// Declares `--preview FILE`, which may be given several times.
void add_preview_option(CLI::App& app, std::vector<std::string>& paths);

// A seed from 0 to `largest`: CLI11 itself would take -1 and what is too large for other numbers.
CLI::Validator seed_up_to(std::uint64_t largest);

// A number that `holds` accepts, as `rule` says in words: CLI11's own ranges let NaN through.
CLI::Validator number_that(const std::string& rule, bool (*holds)(double));

void declare_simulate(CLI::App& app);
void declare_import(CLI::App& app);
void declare_info(CLI::App& app);
void declare_train(CLI::App& app);
void declare_rollout(CLI::App& app);
void declare_evaluate(CLI::App& app);
void declare_report(CLI::App& app);
void declare_compare(CLI::App& app);
void declare_bench(CLI::App& app);
void declare_doctor(CLI::App& app);
void declare_demo(CLI::App& app);

}  // namespace slift::cli
