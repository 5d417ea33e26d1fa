#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "benchmarks/kernel_bench.h"
#include "benchmarks/rollout_bench.h"
#include "benchmarks/train_bench.h"
#include "cli/command.h"

namespace slift::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFramesPerVideo = 500;  // what published times are for
constexpr std::size_t kNameColumns = 96;

struct BenchOptions {
  BenchNet net;
  std::int64_t count = 0;  // of steps or iterations timed together
  std::int64_t repeats = 5;
};

void add_net_options(CLI::App& app, BenchOptions& o, bool fp8 = false) {
  BenchNet& net = o.net;
  const auto number = [&app](const char* name, std::int64_t& value, const char* help) {
    app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(1, 1 << 20));
  };
  number("--size", net.size, "Height and width of the fields");
  app.add_option("--widths", net.widths, "Channels of the UNet's levels, e.g. 128,256,512")
      ->delimiter(',')
      ->capture_default_str();
  number("--batch", net.batch, "Members computed together");
  app.add_option("--device", net.device, "cpu or cuda")->capture_default_str();
  std::vector<std::string> precisions = {"fp32", "tf32", "bf16"};
  if (fp8) precisions.emplace_back("fp8");
  app.add_option("--precision", net.precision,
                 "fp32 is for any device; default: bf16 with cuda, fp32 without")
      ->check(CLI::IsMember(precisions));
}

void add_model_options(CLI::App& app, BenchOptions& o, bool fp8 = false) {
  BenchNet& net = o.net;
  add_net_options(app, o, fp8);
  app.add_option("--channels", net.channels, "Channels of the fields")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--window", net.window, "Past states the network sees")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--label-dimension", net.label_dimension, "Components of the labels")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--padding", net.padding, "zeros or circular")
      ->capture_default_str()
      ->check(CLI::IsMember({"zeros", "circular"}));
  app.add_option("--repeats", o.repeats, "Times it is measured; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--kernels", net.kernels, "Also list the GPU kernels of one step");
}

Json ceilings_of(const BenchResult& result) {
  return {{"copy_gb_per_second", result.ceilings.copy * 1e-9},
          {"gemm_tflops", result.ceilings.gemm * 1e-12}};
}

// What `rollout` and `train` have in common; `times` are theirs alone.
Json model_result(const BenchNet& net, const BenchResult& result, const Json& times) {
  Json out = {{"device", net.device},
              {"precision", result.precision},
              {"size", net.size},
              {"channels", net.channels},
              {"widths", net.widths},
              {"window", net.window},
              {"label_dimension", net.label_dimension},
              {"padding", net.padding},
              {"batch", net.batch},
              {"parameters", result.parameters}};
  out.update(times);
  out["gflop_per_frame"] = result.flops_per_frame * 1e-9;
  out["tflops"] = result.flops_per_second * 1e-12;
  out["gemm_share"] = result.flops_per_second / result.ceilings.gemm;
  out["peak_memory_mb"] = static_cast<double>(result.peak_memory) / (1 << 20);
  out["ceilings"] = ceilings_of(result);
  if (!net.kernels) return out;
  double all = 0;
  for (const KernelTime& kernel : result.kernels) all += kernel.ms;
  for (const KernelTime& kernel : result.kernels) {
    out["kernels"].push_back({{"ms", kernel.ms},
                              {"share", kernel.ms / all},
                              {"calls", kernel.calls},
                              {"name", kernel.name}});
  }
  return out;
}

Json kernels_result(const BenchNet& net, const KernelBench& result) {
  Json out = {{"device", net.device}, {"precision", result.precision}};
  out["ceilings"]["copy_gb_per_second"] = result.copy * 1e-9;
  for (const auto& [precision, flops] : result.gemm) {
    out["ceilings"]["gemm_" + precision + "_tflops"] = flops * 1e-12;
  }
  for (const KernelBenchRow& row : result.rows) {
    Json entry = {{"name", row.name},
                  {"shape", row.shape},
                  {"ms", row.ms},
                  {"mb", row.bytes * 1e-6},
                  {"gb_per_second", row.memory_rate() * 1e-9},
                  {"copy_share", row.memory_rate() / result.copy}};
    if (row.flops > 0) {
      entry["tflops"] = row.compute_rate() * 1e-12;
      entry["gemm_share"] = row.compute_rate() / result.gemm.front().second;
    }
    out["kernels"].push_back(std::move(entry));
  }
  return out;
}

std::string cell(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() <= kNameColumns ? text : text.substr(0, kNameColumns - 3) + "...";
}

// Rows are objects; the columns are all their keys, in the order in which they first come up.
std::string table(const Json& rows) {
  Json widths = Json::object();
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      widths[key] = std::max({widths.value(key, key.size()), cell(value).size()});
    }
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (const auto& [key, width] : widths.items()) {
      line += fmt::format("{:<{}}  ", cell_of(key), width.template get<int>());
    }
    text += "\n" + line.substr(0, line.find_last_not_of(' ') + 1);
  };
  add_line([](const std::string& key) { return key; });
  for (const Json& row : rows) {
    add_line([&row](const std::string& key) {
      return row.contains(key) ? cell(row.at(key)) : std::string();
    });
  }
  return text + "\n";
}

// A line for each value, then the tables.
std::string as_text(const Json& result) {
  std::string lines, tables;
  for (const auto& [key, value] : result.items()) {
    if (value.is_array() && !value.empty() && value.front().is_object()) {
      tables += table(value);
    } else if (value.is_object()) {
      for (const auto& [inner, number] : value.items()) {
        lines += fmt::format("{:<28} {}\n", key + "." + inner, cell(number));
      }
    } else {
      lines += fmt::format("{:<28} {}\n", key, cell(value));
    }
  }
  return lines + tables;
}

void print_bench(const Json& result) { print_result(result, as_text(result)); }

void declare_bench_rollout(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  o->count = 20;
  add_model_options(app, *o, /*fp8=*/true);
  app.add_option("--steps", o->count, "Steps timed together")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.callback([o] {
    const RolloutBench result = bench_rollout(o->net, o->count, o->repeats);
    const double ms_per_frame = result.ms_per_step / static_cast<double>(o->net.batch);
    print_bench(model_result(o->net, result,
                             {{"ms_per_step", result.ms_per_step},
                              {"seconds_per_video", ms_per_frame * kFramesPerVideo / 1000}}));
  });
}

void declare_bench_train(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  o->net.size = 64;
  o->net.channels = 1;
  o->net.label_dimension = 64;
  o->count = 30;
  add_model_options(app, *o);
  app.add_option("--iterations", o->count, "Iterations timed together")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.callback([o] {
    const TrainBench result = bench_train(o->net, o->count, o->repeats);
    print_bench(model_result(o->net, result,
                             {{"ms_per_iteration", result.ms_per_iteration},
                              {"startup_seconds", result.startup_seconds},
                              {"loss", result.loss}}));
  });
}

void declare_bench_kernels(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  add_net_options(app, *o);
  app.callback([o] { print_bench(kernels_result(o->net, bench_kernels(o->net))); });
}

}  // namespace

void declare_bench(CLI::App& app) {
  app.require_subcommand(1);
  const auto add = [&app](const char* name, const char* summary, void (*declare)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->fallthrough();  // to the flags every command has
    declare(*sub);
  };
  add("rollout", "steps of an ensemble, nothing read or written", declare_bench_rollout);
  add("train", "whole training iterations on data in memory", declare_bench_train);
  add("kernels", "each kernel of a step on its own, beside what the device can do",
      declare_bench_kernels);
}

}  // namespace slift::cli
