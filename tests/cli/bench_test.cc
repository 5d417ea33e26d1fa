// `slift bench` on networks small enough for any CPU: fields, counts, refusals.
#include <nlohmann/json.hpp>
#include <set>

#include "fixture.h"

namespace slift::testing {
namespace {

using nlohmann::json;

json bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.push_back("--json");
  const auto r = run_slift(arguments);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return json::parse(r.out, nullptr, false);
}

// The FLOP of the network below, counted by hand in multiply-adds; both levels have 8 channels.
double tiny_flops() {
  const double conv = 9 * 8 * 8, fine = 16 * 16, coarse = 8 * 8;
  const double plain = 2 * conv, wide = 3 * conv + 2 * 8 * 8;
  const double films = 11 * 512 * 16, label = 4 * 512 + 512 * 512;
  const double stem = 9 * 2 * 2 * 8 * fine, head = 9 * 8 * 2 * fine;
  const double fine_blocks = (2 * plain + 3 * wide) * fine,
               coarse_blocks = (4 * plain + 2 * wide) * coarse;
  return 2 * (stem + head + films + label + fine_blocks + coarse_blocks + 2 * conv * fine +
              conv * coarse);
}

const std::vector<std::string> kTiny = {
    "--size",    "16", "--channels",        "2", "--widths", "8,8",
    "--window",  "2",  "--label-dimension", "4", "--batch",  "3",
    "--repeats", "2"};

std::vector<std::string> tiny(const std::string& what, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {what};
  arguments.insert(arguments.end(), kTiny.begin(), kTiny.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_model_fields(const json& result, double frames_per_second) {
  EXPECT_EQ(result.at("device"), "cpu");
  EXPECT_EQ(result.at("precision"), "fp32");
  EXPECT_EQ(result.at("widths"), json({8, 8}));
  EXPECT_EQ(result.at("batch"), 3);
  EXPECT_GT(result.at("parameters"), 10000);
  EXPECT_GT(result.at("peak_memory_mb"), 10);
  EXPECT_NEAR(result.at("gflop_per_frame").get<double>(), tiny_flops() * 1e-9, 1e-12);
  const double tflops = result.at("tflops").get<double>();
  EXPECT_NEAR(tflops / (tiny_flops() * 1e-12 * frames_per_second), 1, 1e-9);
  const json& ceilings = result.at("ceilings");
  EXPECT_GT(ceilings.at("copy_gb_per_second"), 0.1);
  EXPECT_NEAR(result.at("gemm_share").get<double>(),
              tflops / ceilings.at("gemm_tflops").get<double>(), 1e-12);
  EXPECT_FALSE(result.contains("kernels"));
}

TEST(BenchTest, Rollout) {
  const json result = bench(tiny("rollout", {"--steps", "2", "--padding", "circular"}));
  const double ms = result.at("ms_per_step").get<double>();
  EXPECT_GT(ms, 0);
  EXPECT_NEAR(result.at("seconds_per_video").get<double>(), ms * 500 / 3 / 1000, 1e-9 * ms);
  EXPECT_EQ(result.at("padding"), "circular");
  expect_model_fields(result, 3 / (ms / 1000));
}

TEST(BenchTest, Train) {
  const json result = bench(tiny("train", {"--iterations", "2"}));
  const double ms = result.at("ms_per_iteration").get<double>();
  EXPECT_GT(ms, 0);
  EXPECT_GT(result.at("startup_seconds").get<double>(), ms / 10000);
  EXPECT_GT(result.at("loss").get<double>(), 0);
  EXPECT_LT(result.at("loss").get<double>(), 10);  // data of unit scale
  expect_model_fields(result, 3 * 3 / (ms / 1000));
}

TEST(BenchTest, Kernels) {
  const json result = bench({"kernels", "--size", "16", "--widths", "8,16", "--batch", "2"});
  const double copy = result.at("ceilings").at("copy_gb_per_second").get<double>();
  const double gemm = result.at("ceilings").at("gemm_fp32_tflops").get<double>();
  ASSERT_EQ(result.at("kernels").size(), 16u);  // 8 on each of two levels
  std::set<std::string> names;
  for (const json& row : result.at("kernels")) {
    names.insert(row.at("name").get<std::string>() + " " + row.at("shape").get<std::string>());
    const double ms = row.at("ms").get<double>(), rate = row.at("gb_per_second").get<double>();
    EXPECT_NEAR(rate * ms, row.at("mb").get<double>(), 1e-9);
    EXPECT_NEAR(row.at("copy_share").get<double>(), rate / copy, 1e-12);
    if (!row.contains("tflops")) continue;
    EXPECT_NEAR(row.at("gemm_share").get<double>(), row.at("tflops").get<double>() / gemm, 1e-12);
  }
  EXPECT_EQ(names.size(), 16u);

  const json& conv = result.at("kernels")[8];  // on the second level
  EXPECT_EQ(conv.at("shape"), "2 x 16 x 8 x 8");
  EXPECT_NEAR(conv.at("mb").get<double>(), 4e-6 * (2 * 2 * 16 * 64 + 9 * 16 * 16), 1e-12);
  EXPECT_NEAR(conv.at("tflops").get<double>() * conv.at("ms").get<double>(),
              1e-9 * 2 * 9 * 16 * 16 * 2 * 64, 1e-12);
  const json& gradient = result.at("kernels")[15];  // of the norm of two sources
  EXPECT_EQ(gradient.at("shape"), "2 x 32 x 8 x 8");
  EXPECT_NEAR(gradient.at("mb").get<double>(), 4e-6 * 3 * 2 * 32 * 64, 1e-12);
}

TEST(BenchTest, TextHasTheSameNumbersInATable) {
  const auto r = run_slift({"bench", "kernels", "--size", "8", "--widths", "8", "--batch", "1"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  for (const char* part : {"ceilings.copy_gb_per_second", "copy_share", "conv 3x3, weight gradient",
                           "1 x 16 x 8 x 8"}) {
    EXPECT_NE(r.out.find(part), std::string::npos) << part << "\n" << r.out;
  }
}

TEST(BenchTest, RefusesWhatCannotBe) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"bench"}, "subcommand"},
      {{"bench", "rollout", "--precision", "bf16"}, "precision bf16 needs --device cuda"},
      {{"bench", "kernels", "--precision", "bf16"}, "precision bf16 needs --device cuda"},
      {{"bench", "train", "--precision", "fp8"}, "--precision"},
      {{"bench", "rollout", "--precision", "fp8"}, "precision fp8 needs --device cuda"},
      {{"bench", "rollout", "--kernels"}, "--kernels needs --device cuda"},
      {{"bench", "rollout", "--size", "6", "--widths", "8,8,8"}, "multiples of 4, got 6 x 6"},
      {{"bench", "kernels", "--size", "1", "--widths", "8,8"}, "--size must"},
      {{"bench", "rollout", "--batch", "0"}, "--batch"},
  };
  for (const auto& [arguments, message] : cases) {
    const auto r = run_slift(arguments);
    EXPECT_EQ(r.exit_code, 2) << message;
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

}  // namespace
}  // namespace slift::testing
