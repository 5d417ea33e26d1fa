// The command table, one try/catch, the exit codes: 0 done, 1 failure, 2 bad input, 130
// interrupted.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "cli/command.h"
#include "core/config.h"
#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "tensor/runtime.h"

namespace slift::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"demo", "learn and test an emulator of the Duffing oscillator in two minutes", "slift demo",
       declare_demo},
      {"simulate", "simulate trajectories of a built-in system",
       "slift simulate duffing --members 2048 --seed 1 --out data/duffing.h5 --preview duffing.png",
       declare_simulate},
      {"import", "bring .npy files or an HDF5 data set into a trajectory file",
       "slift import run*.npy --layout TN --dt 0.1 --out data/mine.h5", declare_import},
      {"info", "say what a file or run folder holds",
       "slift info data/duffing.h5 --stats --preview duffing.apng", declare_info},
      {"train", "learn a transition model from trajectories",
       "slift train configs/duffing.toml --out runs/duffing", declare_train},
      {"rollout", "roll an ensemble out of a trained model",
       "slift rollout runs/duffing --init data/test.h5 --members 100000 --steps 70 --every 10",
       declare_rollout},
      {"evaluate", "compare an ensemble with true trajectories",
       "slift evaluate runs/duffing --truth data/test.h5", declare_evaluate},
      {"report", "write one HTML page about one or more evaluated runs",
       "slift report runs/duffing runs/duffing-d0", declare_report},
      {"compare", "compare several runs or data sets with one truth, in one table and one page",
       "slift compare runs/duffing runs/duffing-d0 --truth data/test.h5", declare_compare},
      {"bench", "measure rollout, training or single kernels of a UNet on this machine",
       "slift bench rollout --device cuda --size 128 --batch 64", declare_bench},
      {"doctor", "say what this machine and this build can do", "slift doctor", declare_doctor},
  };
  return table;
}

CommonFlags& common_flags() {
  static CommonFlags flags;
  return flags;
}

std::string to_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_result(const nlohmann::json& result, const std::string& text) {
  if (common_flags().json) {
    std::cout << to_text(result) << std::endl;
  } else if (!text.empty()) {
    std::cout << text << (text.back() == '\n' ? "" : "\n") << std::flush;
  }
}

std::string model_path(const std::string& run_or_file) {
  if (!std::filesystem::is_directory(run_or_file)) return run_or_file;
  const auto model = std::filesystem::path(run_or_file) / "model.safetensors";
  require(std::filesystem::exists(model),
          "{}: holds no model.safetensors: the training has not finished (continue it with "
          "--resume)",
          run_or_file);
  return model.string();
}

std::string rollout_path(const std::string& run_or_file) {
  if (!std::filesystem::is_directory(run_or_file)) return run_or_file;
  const auto rollout = std::filesystem::path(run_or_file) / "rollout.h5";
  require(std::filesystem::exists(rollout), "{}: holds no rollout.h5; `slift rollout {}` makes it",
          run_or_file, run_or_file);
  return rollout.string();
}

void add_preview_option(CLI::App& app, std::vector<std::string>& paths) {
  app.add_option("--preview", paths,
                 "Picture to write: .png a sheet of members and times, .apng an animation; may be "
                 "given several times")
      ->allow_extra_args(false);
}

CLI::Validator seed_up_to(std::uint64_t largest) {
  const auto check = [largest](const std::string& text) -> std::string {
    std::uint64_t seed = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, seed);
    if (error == std::errc() && stopped == end && seed <= largest) return "";
    return fmt::format("must be a whole number from 0 to {}, got {}", largest, text);
  };
  return {check, "", "seed"};
}

CLI::Validator number_that(const std::string& rule, bool (*holds)(double)) {
  const auto check = [rule, holds](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && holds(value)) return "";
    return fmt::format("must be {}, got {}", rule, text);
  };
  return {check, "", "number"};
}

namespace {

int run(int argc, char** argv) {
  CLI::App app("slift: fast emulators of stochastic systems, learned from trajectories");
  app.set_version_flag("--version", SLIFT_VERSION);
  app.require_subcommand(1);
  CommonFlags& flags = common_flags();
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(fmt::format("Example:\n  {}", command.example));
    sub->add_flag("--quiet,-q", flags.quiet, "No progress and no notes");
    sub->add_flag("--json", flags.json, "Print the result as one line of JSON");
    sub->add_option("--threads", flags.threads, "CPU threads; 0: OMP_NUM_THREADS or all cores")
        ->check(CLI::Range(0, 4096));
    command.declare(*sub);
  }
  // Commands run after parsing, so that the common flags are in force by then.
  app.parse_complete_callback([&flags] {
    init_logging(flags.quiet);
    Progress::set_enabled(!flags.quiet);
    set_threads(flags.threads);
  });
  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    require(std::find(names.begin(), names.end(), argv[1]) != names.end(),
            "unknown command {}; the nearest is {}", argv[1], nearest_name(argv[1], names));
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(
        stderr, "slift: {}; `slift {}--help` shows the options\n", error.what(),
        app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ");
    return 2;
  }
}

// LibTorch's messages carry stack traces; the first line says what happened.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace
}  // namespace slift::cli

int main(int argc, char** argv) {
  slift::install_interrupt_handlers();
  slift::keep_freed_memory();
  try {
    const int code = slift::cli::run(argc, argv);
    // A disk may be full: what could not be printed is no success.
    if (!std::cout.flush()) throw std::runtime_error("cannot write to standard output");
    return code;
  } catch (const slift::UserError& error) {
    fmt::print(stderr, "slift: {}\n", error.what());
    return 2;
  } catch (const slift::Interrupted& error) {
    fmt::print(stderr, "slift: {}\n", error.what());
    return 130;
  } catch (const std::exception& error) {
    fmt::print(stderr, "slift: failed: {}\n", slift::cli::first_line(error.what()));
    return 1;
  }
}
