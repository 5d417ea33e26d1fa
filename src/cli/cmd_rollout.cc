#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>

#include "cli/command.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/log.h"
#include "metrics/record.h"
#include "rollout/rollout.h"
#include "tensor/runtime.h"

namespace slift::cli {
namespace {

// "N": members 0 .. N-1; "A:B": members A .. B-1.
void parse_members(const std::string& text, RolloutOptions& options) {
  const auto colon = text.find(':');
  const auto number = [&](const std::string& digits) {
    const bool valid = !digits.empty() && digits.size() <= 12 &&
                       digits.find_first_not_of("0123456789") == std::string::npos;
    require(valid, "--members must be N or A:B with whole numbers below 10^12, got {}", text);
    return std::stoll(digits);
  };
  const std::int64_t begin = colon == std::string::npos ? 0 : number(text.substr(0, colon));
  const std::int64_t end = number(colon == std::string::npos ? text : text.substr(colon + 1));
  require(begin < end, "--members must name at least one member, got {}", text);
  options.first_member = begin;
  options.members = end - begin;
}

StateMap record_map(const TrajectoryInfo& states, const std::string& quantities) {
  const auto extra = quantities.empty() ? std::vector<Quantity>{} : read_quantities(quantities);
  return slift::record_map(plan_record(states, extra), states);
}

nlohmann::json run_check(const TransitionModel& model, const TrajectoryReader& initial,
                         const RolloutOptions& options) {
  const StepCheck check = check_rollout(model, initial, options);
  if (!check.passed()) {
    throw std::runtime_error("the recorded step is not the eager one: " + check.in_words());
  }
  spdlog::info("check: {}", check.in_words());
  return {{"steps", check.steps},
          {"recorded", check.recorded},
          {"labels_equal", check.labels_equal},
          {"largest_difference", check.largest_difference}};
}

}  // namespace

void declare_rollout(CLI::App& app) {
  struct Options {
    std::string run, init, out, members = "1024", device = "cpu", precision = "fp32";
    std::string quantities;
    std::vector<std::string> fields;
    bool no_states = false, check = false;
    RolloutOptions rollout;
  };
  auto o = std::make_shared<Options>();
  o->rollout.steps = 0;
  app.add_option("run", o->run, "Run folder or model file")->required();
  app.add_option("--init", o->init,
                 "Trajectory file whose first states the members start from, one after the other "
                 "and over again; default: the training data");
  app.add_option("--first", o->rollout.first_initial, "Start at this trajectory of --init")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--branches", o->rollout.branches,
                 "Consecutive members that start from the same trajectory")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--first-window", o->rollout.first_window,
               "Start from as many true states as the model's window has, instead of the first one "
               "repeated");
  app.add_option("--members,-m", o->members,
                 "Members of the ensemble; A:B for members A to B-1, the same as in a full run")
      ->capture_default_str();
  app.add_option("--steps,-n", o->rollout.steps, "Steps; default: as in --init")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  app.add_option("--every", o->rollout.every, "Store every so many steps only")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--fields", o->fields, "Store these components or channels only, e.g. u,v")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--no-states", o->no_states,
               "Store only what `slift evaluate` needs, a hundredth or less of the states")
      ->excludes("--fields");
  app.add_option("--quantities", o->quantities,
                 "TOML file of [[quantity]] tables to record with --no-states")
      ->needs("--no-states");
  app.add_option("--seed,-s", o->rollout.seed, "Seed of the labels")
      ->capture_default_str()
      ->check(seed_up_to(std::numeric_limits<std::uint64_t>::max()));
  app.add_option("--chunk", o->rollout.chunk,
                 "Members computed together, rounded up to blocks of the network; changes no "
                 "result; 0: chosen")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", o->rollout.batch,
                 "Members in one network evaluation; another number may change the last bits; 0: "
                 "chosen by the states' shape and the device")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  app.add_flag("!--no-graph", o->rollout.graph,
               "On a GPU run every step call by call, not as one recorded CUDA graph: slower, same "
               "results");
  app.add_flag("--check", o->check,
               "First compare ten steps as the GPU has recorded them with the same ones run "
               "eagerly; fail if they differ by more than rounding");
  app.add_option("--device", o->device, "cpu or cuda")->capture_default_str();
  app.add_option("--precision", o->precision, "fp32, or with cuda tf32, bf16 or fp8")
      ->capture_default_str();
  app.add_option("--out,-o", o->out, "Trajectory file; default RUN/rollout.h5");
  app.callback([o] {
    parse_members(o->members, o->rollout);
    TransitionModel model = load_model(model_path(o->run));
    model.to(resolve_device(o->device));
    model.check_precision(o->precision);
    if (o->init.empty()) o->init = model.spec().data.value("path", "");
    require(!o->init.empty(), "--init: name a trajectory file to start from");
    const TrajectoryReader initial(o->init);
    if (o->rollout.steps == 0) o->rollout.steps = initial.info().steps - 1;
    require(o->rollout.steps >= 1, "--steps must be at least 1, {} has none to imitate", o->init);
    if (o->out.empty()) {
      require(std::filesystem::is_directory(o->run),
              "--out: is needed when a model file is given instead of a run folder");
      o->out = (std::filesystem::path(o->run) / "rollout.h5").string();
    }
    require_not_input(o->out, {o->init, model_path(o->run), o->quantities});
    const TrajectoryInfo states = rollout_info(model.spec(), o->rollout);
    const StateMap map = o->no_states        ? record_map(states, o->quantities)
                         : o->fields.empty() ? keep_all(states)
                                             : keep_fields(states, o->fields);
    if (o->precision == "fp8") calibrate_rollout(model, initial, o->rollout);
    model.set_precision(o->precision);
    const nlohmann::json check =
        o->check ? run_check(model, initial, o->rollout) : nlohmann::json();
    const TrajectoryInfo info = roll_out_to_file(model, initial, o->rollout, map, o->out);
    nlohmann::json result = {{"out", o->out},
                             {"members", info.members},
                             {"first_member", info.first_member},
                             {"steps", o->rollout.steps},
                             {"every", o->rollout.every},
                             {"seed", o->rollout.seed},
                             {"init", o->init}};
    if (o->check) result["check"] = check;
    print_result(result, fmt::format("{}: {}", o->out, info.describe_shape()));
  });
}

}  // namespace slift::cli
