// Every method through training, rollout, resume and model file: those of the registry, and three
// that stand for what others may add (docs/adding.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"
#include "flow.h"
#include "gaussian.h"
#include "random_walk.h"
#include "rollout/rollout.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

namespace slift {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMembers = 32, kStates = 17;
constexpr double kDecay = 0.8, kNoise = 0.5;

const bool kRegistered = [] {
  register_method({"gaussian", "a normal next state",
                   [](const MethodConfig&, const auto& state, std::int64_t window) {
                     return std::make_unique<Gaussian>(state, window);
                   }});
  register_method({"straight_flow", "a straight flow from noise, three evaluations a step",
                   [](const MethodConfig&, const auto& state, std::int64_t window) {
                     return std::make_unique<StraightFlow>(state, window);
                   }});
  register_method({"random_walk", "a normal step, no network",
                   [](const MethodConfig&, const auto& state, std::int64_t) {
                     return std::make_unique<RandomWalk>(state);
                   }});
  return true;
}();

// Each value goes its own way: x' = kDecay x + kNoise z.
void write_autoregressive(const fs::path& path, const std::vector<std::int64_t>& state) {
  TrajectoryInfo info;
  info.members = kMembers;
  info.steps = kStates;
  info.state_shape = state;
  const auto size = static_cast<std::size_t>(info.state_size());
  std::vector<float> states;
  for (std::uint64_t m = 0; m < kMembers; ++m) {
    std::vector<float> x(size), z(size);
    fill_normal({1, Purpose::kInitialState, m, 0}, x);
    for (std::uint32_t t = 0; t < kStates; ++t) {
      states.insert(states.end(), x.begin(), x.end());
      fill_normal({1, Purpose::kSystemNoise, m, t}, z);
      for (std::size_t i = 0; i < size; ++i) {
        x[i] = static_cast<float>(kDecay * x[i] + kNoise * z[i]);
      }
    }
  }
  TrajectoryWriter writer(path, info);
  writer.write(0, kMembers, states);
  writer.commit();
}

// A method with vectors or with fields.
class EveryMethod : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  EveryMethod() {
    init_logging(/*quiet=*/true);
    Progress::set_enabled(false);
    const auto& [kind, fields] = GetParam();
    config_.method.kind = kind;
    config_.method.lifting.dimension = 4;
    config_.net.window = 2;
    if (fields) {
      config_.net.kind = "unet";
      config_.net.widths = {8};
      config_.net.label_width = 8;
    } else {
      config_.net.width = 32;
      config_.net.layers = 2;
    }
    config_.path = (folder_ / "data.h5").string();
    write_autoregressive(
        config_.path, fields ? std::vector<std::int64_t>{1, 4, 4} : std::vector<std::int64_t>{2});
    config_.seed = 3;
    config_.lr = 3e-3;
    config_.warmup = 5;
    config_.ema = 0.9;
    config_.iterations = 20;
    config_.batch = 64;
    config_.checkpoint_every = 8;
    config_.validate_every = 13;  // for a run that is given a validation
  }
  bool has_network() const {
    return make_method(config_.method, {2}, 2)->backbone_shape().has_value();
  }
  std::string trained_model(const std::string& run) {
    return read_file(train(config_, {.run = folder_ / run, .resume = true}).model);
  }
  std::vector<float> rolled_out(const TransitionModel& model, const RolloutOptions& options) {
    const fs::path out = folder_ / "rollout.h5";
    roll_out_to_file(model, TrajectoryReader(config_.path), options, out);
    const TrajectoryReader reader(out);
    const std::int64_t size = reader.info().members * reader.info().trajectory_size();
    std::vector<float> states(static_cast<std::size_t>(size));
    reader.read(0, reader.info().members, states);
    return states;
  }

  TestFolder folder_;
  TrainConfig config_;
};

TEST_P(EveryMethod, TrainingRepeatsAndResumesByteForByte) {
  const std::string model = trained_model("whole");
  EXPECT_TRUE(trained_model("again") == model);
  const ModelSpec spec = read_model_spec(folder_ / "whole" / "model.safetensors");
  EXPECT_EQ(spec.method.kind, config_.method.kind);
  // Stops between two checkpoints, by an error.
  const TrainOptions stopped = {
      .run = folder_ / "stopped",
      .validate = [](const TransitionModel&) -> Scores { fail("as the test wants it"); }};
  if (has_network()) {
    EXPECT_THROW(train(config_, stopped), UserError);
    EXPECT_FALSE(fs::exists(stopped.run / "model.safetensors"));
    EXPECT_TRUE(fs::exists(stopped.run / "checkpoints" / "step-00000008"));
  }
  EXPECT_TRUE(trained_model("stopped") == model);
}

TEST_P(EveryMethod, MembersAreTheirOwnWhateverTheChunkAndTheThreads) {
  trained_model("run");
  const TransitionModel model = load_model(folder_ / "run" / "model.safetensors");
  const RolloutOptions options{.members = 40, .steps = 6, .seed = 9, .batch = 8};
  const std::vector<float> states = rolled_out(model, options);
  const int before = at::get_num_threads();
  for (const int threads : {1, 3}) {
    set_threads(threads);
    RolloutOptions chunked = options;
    chunked.chunk = 24;
    EXPECT_TRUE(rolled_out(model, chunked) == states) << threads;
  }
  set_threads(before);
  RolloutOptions other = options;
  other.seed = 10;
  EXPECT_EQ(rolled_out(model, other) == states, model.method().numbers() == 0);
}

// Moving a window in place and sampling by itself are one thing.
TEST_P(EveryMethod, AdvanceHasTheBitsOfForward) {
  trained_model("run");
  const TransitionModel model = load_model(folder_ / "run" / "model.safetensors");
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> shape = {5, 2};
  for (const std::int64_t n : model.spec().state_shape) shape.push_back(n);
  const Tensor window = at::arange(at::zeros(shape).numel()).to(at::kFloat).sin().view(shape);
  const Tensor numbers = at::empty({5, model.method().numbers()});
  model.method().draw(1, at::arange(5, at::kLong), at::zeros({1}, at::kLong), numbers);
  const Tensor next = model.forward(window, numbers), last = window.select(1, 1).clone();
  model.advance(window, numbers);
  EXPECT_TRUE(at::equal(window.select(1, 1), next));
  EXPECT_TRUE(at::equal(window.select(1, 0), last));
}

class EveryMethodOfVectors : public EveryMethod {};

// What three Euler steps along straight paths leave of a normal's variance c, which is that of a
// step in units of all steps' deviation: each multiplies by 1 + slope / 3, the slope that of the
// regression of (target - noise) on the point between.
double variance_after_three_steps() {
  const double stationary = kNoise * kNoise / (1 - kDecay * kDecay);
  const double step = (1 - kDecay) * (1 - kDecay) * stationary + kNoise * kNoise;
  const double c = kNoise * kNoise / step;
  double deviation = 1;
  for (const double t : {0.0, 1.0 / 3, 2.0 / 3}) {
    const double slope = (t * c - (1 - t)) / ((1 - t) * (1 - t) + t * t * c);
    deviation *= 1 + slope / 3;
  }
  return deviation * deviation / c;
}

TEST_P(EveryMethodOfVectors, SamplesSpreadAsTheDataDo) {
  config_.iterations = 400;
  config_.log_every = 400;
  const TrainResult result = train(config_, {.run = folder_ / "run"});
  const std::string kind = config_.method.kind;
  const GaugeReading& reading = result.gauge.training.pooled;
  const std::string verdict = result.gauge.verdict(), words = result.gauge.in_words();
  if (kind == "deterministic") {
    EXPECT_EQ(reading.spread, 0);
    EXPECT_EQ(verdict, "mean collapse");
  } else if (kind == "lifting") {
    EXPECT_TRUE(reading.has_fitted());
  } else {
    const bool narrows = kind == "straight_flow";
    EXPECT_EQ(verdict, narrows ? "sampling, too narrow" : "sampling") << words;
    EXPECT_NEAR(reading.spread_ratio(), narrows ? variance_after_three_steps() : 1, 0.15) << words;
  }
}

std::vector<std::string> all_methods() {
  EXPECT_TRUE(kRegistered);
  return method_names();
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMethod,
                         testing::Combine(testing::ValuesIn(all_methods()), testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) ? "_fields" : "_vectors");
                         });
INSTANTIATE_TEST_SUITE_P(Registry, EveryMethodOfVectors,
                         testing::Combine(testing::ValuesIn(all_methods()), testing::Values(false)),
                         [](const auto& test) { return std::get<0>(test.param); });

TEST(Methods, NamesAreUniqueAndUnknownOnesNameTheNearest) {
  const std::vector<std::string> all = method_names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const MethodEntry& entry : method_registry()) EXPECT_FALSE(entry.summary.empty());
  EXPECT_THROW(register_method({"lifting", "", nullptr}), std::logic_error);
  MethodConfig config;
  config.kind = "liftin";
  const std::string error = error_of([&] { make_method(config, {2}, 1); });
  EXPECT_EQ(error, "method.kind: unknown method liftin; the nearest is lifting");
}

TEST(Methods, EvaluationsAreCounted) {
  const auto evaluations = [](const std::string& kind) {
    MethodConfig config;
    config.kind = kind;
    return make_method(config, {2}, 1)->evaluations();
  };
  EXPECT_EQ(evaluations("lifting"), 1);
  EXPECT_EQ(evaluations("straight_flow"), 3);
  EXPECT_EQ(evaluations("random_walk"), 0);
}

// docs/adding.md shows a method that is built and tested here.
TEST(Methods, TheOneInTheDocumentationIsThisOne) {
  const fs::path root = SLIFT_SOURCE_DIR;
  const std::string code = read_file(root / "tests/methods/gaussian.h");
  const auto lines = std::count(code.begin(), code.end(), '\n');
  std::printf("a method: %td lines\n", lines);
  EXPECT_LE(lines, 100);
  const std::string text = code.substr(code.find("class Gaussian"));
  EXPECT_NE(read_file(root / "docs/adding.md").find(text.substr(0, text.find("\n\n}  // name"))),
            std::string::npos);
}

}  // namespace
}  // namespace slift
