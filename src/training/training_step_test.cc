// Trainer::step() on every device, recorded as a CUDA graph where there is one.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "core/log.h"
#include "core/random.h"
#include "core/testing.h"
#include "methods/labels.h"
#include "tensor/runtime.h"
#include "tensor/test_devices.h"
#include "training/trainer.h"

namespace slift {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

constexpr std::int64_t kRows = 12, kTrajectories = 4, kFrames = 8;
// Warm-ups, the recording and replays.
constexpr int kStepsOfTest = 12;
static_assert(kStepsOfTest > 2 * StepGraph::kWarmups + 2);

class SteppingTrainer {
 public:
  SteppingTrainer(const TrainConfig& config, const at::Device& device)
      : ranks_(RankInfo{}, device), trainer_(config, ranks_) {}
  Trainer* operator->() { return &trainer_; }

  double step(double phase) {
    bool stop = false;
    return trainer_.step(phase, stop).item<double>();
  }
  // Up to the given iteration, by the schedule of a run of kStepsOfTest.
  void advance_to(std::int64_t iteration) {
    while (trainer_.iteration() < iteration) {
      step(static_cast<double>(trainer_.iteration()) / kStepsOfTest);
    }
  }
  NamedTensors copied_state() {
    NamedTensors state;
    for (const auto& [name, tensor] : trainer_.optimizer().state()) {
      state[name] = tensor.detach().cpu().clone();
    }
    return state;
  }
  void rewind(const NamedTensors& state, std::int64_t iteration) {
    trainer_.optimizer().load_state(state, iteration, "state");
    trainer_.set_iteration(iteration);
  }

 private:
  Ranks ranks_;
  Trainer trainer_;
};

void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

// A device, a family of networks, and whether the second half of the run looks at rollouts.
class TrainingStep : public testing::TestWithParam<std::tuple<at::Device, std::string, bool>> {
 protected:
  TrainingStep() : device_(resolve_device(device_name(std::get<0>(GetParam())))) {
    init_logging(/*quiet=*/true);
    TrajectoryInfo info;
    info.members = kTrajectories;
    info.steps = kFrames;
    config_.net.kind = std::get<1>(GetParam());
    config_.net.window = 2;
    if (config_.net.kind == "mlp") {
      info.state_shape = {3};
      config_.net.width = 16;
      config_.net.layers = 2;
    } else {
      info.state_shape = {2, 8, 8};
      config_.net.widths = {8, 16};
      config_.net.label_width = 8;
    }
    std::vector<float> states(static_cast<std::size_t>(kTrajectories * info.trajectory_size()));
    fill_normal({2, Purpose::kSystemNoise, 0, 0}, states);
    config_.path = (folder_ / "noise.h5").string();
    TrajectoryWriter writer(config_.path, info);
    writer.write(0, kTrajectories, states);
    writer.commit();
    config_.seed = 3;
    config_.method.lifting.dimension = 3;
    config_.lr = 1e-2;
    config_.warmup = 3;
    config_.ema = 0.9;
    config_.batch = kRows;
    if (!std::get<2>(GetParam())) return;
    config_.score.from = 0.5;
    config_.score.members = 4;
    config_.score.truths = 5;
  }

  SteppingTrainer trainer() const { return SteppingTrainer(config_, device_); }

  TestFolder folder_;
  at::Device device_;
  TrainConfig config_;
};

// With the data on the GPU, and brought there batch by batch.
TEST_P(TrainingStep, RecordedOrNotGivesTheSameBits) {
  for (const std::int64_t device_mb : {1, 0}) {
    config_.device_mb = device_mb;
    config_.graph = true;
    SteppingTrainer recorded = trainer();
    EXPECT_EQ(recorded->feed().on_gpu(), device_.is_cuda() && device_mb > 0);
    config_.graph = false;
    SteppingTrainer direct = trainer();
    for (int i = 0; i < kStepsOfTest; ++i) {
      const double phase = static_cast<double>(i) / kStepsOfTest;
      EXPECT_EQ(recorded.step(phase), direct.step(phase)) << i;
      EXPECT_EQ(recorded->last_gradient_norm(), direct->last_gradient_norm()) << i;
    }
    expect_same_bits(recorded.copied_state(), direct.copied_state());
  }
}

TEST_P(TrainingStep, BitsDoNotDependOnThreads) {
  const int before = at::get_num_threads();
  NamedTensors expected;
  for (const int threads : {1, 2, 5}) {
    set_threads(threads);
    SteppingTrainer stepped = trainer();
    stepped.advance_to(kStepsOfTest);
    if (expected.empty()) expected = stepped.copied_state();
    expect_same_bits(stepped.copied_state(), expected);
  }
  set_threads(before);
}

TEST_P(TrainingStep, ResumedGivesTheSameBits) {
  SteppingTrainer whole = trainer();
  whole.advance_to(6);
  const NamedTensors middle = whole.copied_state();
  whole.advance_to(kStepsOfTest);
  const NamedTensors end = whole.copied_state();
  EXPECT_FALSE(at::equal(middle.at("param.0"), end.at("param.0")));

  SteppingTrainer fresh = trainer();
  fresh.rewind(middle, 6);
  fresh.advance_to(kStepsOfTest);
  expect_same_bits(fresh.copied_state(), end);
  // One whose step is recorded already.
  whole.rewind(middle, 6);
  whole.advance_to(kStepsOfTest);
  expect_same_bits(whole.copied_state(), end);
}

TEST_P(TrainingStep, LendingTheAveragedWeightsLeavesNoTrace) {
  SteppingTrainer a = trainer(), b = trainer();
  a.advance_to(6);
  a->with_averaged_weights([](const TransitionModel&) {});
  a->gauge();
  a.advance_to(kStepsOfTest);
  b.advance_to(kStepsOfTest);
  expect_same_bits(a.copied_state(), b.copied_state());
}

TEST_P(TrainingStep, PartsAddUpToTheBatch) {
  config_.eps = 1e-2;  // gradients that are nothing but rounding shall not move weights
  SteppingTrainer whole = trainer();
  config_.accumulate = 2;
  SteppingTrainer parts = trainer();
  for (int i = 0; i < kStepsOfTest; ++i) {
    const double phase = i < kStepsOfTest / 2 ? 0.2 : 0.7;
    const double loss = whole.step(phase);
    EXPECT_NEAR(parts.step(phase), loss, 1e-5 * loss) << i;
  }
  const NamedTensors state = parts.copied_state();
  for (const auto& [name, tensor] : whole.copied_state()) {
    EXPECT_TRUE(at::allclose(tensor, state.at(name), 1e-3, 1e-5)) << name;
  }
}

// The same in bfloat16, where there is a GPU: gradients of copies, rounded once in every part. A
// first moment after one step is a tenth of the gradient.
TEST_P(TrainingStep, PartsOfGradientsOfCopiesAddUp) {
  config_.precision = device_.is_cuda() ? "bf16" : "fp32";
  config_.clip = 0;
  SteppingTrainer whole = trainer();
  config_.accumulate = 3;
  SteppingTrainer parts = trainer();
  whole.step(0.2);
  parts.step(0.2);
  const NamedTensors state = parts.copied_state();
  double difference = 0, size = 0;  // squared
  for (const auto& [name, tensor] : whole.copied_state()) {
    if (!name.starts_with("first.")) continue;
    difference += (state.at(name) - tensor).square().sum().item<double>();
    size += tensor.square().sum().item<double>();
  }
  EXPECT_GT(size, 0);
  EXPECT_LT(std::sqrt(difference / size), device_.is_cuda() ? 0.1 : 1e-5);
}

// A rate that was recorded instead of read would move the weights.
TEST_P(TrainingStep, TheScheduleActsOnEveryStep) {
  SteppingTrainer stepped = trainer();
  for (int i = 0; i < kStepsOfTest; ++i) {
    const bool rests = i % 2 == 1;  // a phase of 1 has the rate 0
    const NamedTensors before = stepped.copied_state();
    stepped.step(rests ? 1 : 0.2);
    const NamedTensors after = stepped.copied_state();
    EXPECT_EQ(at::equal(before.at("param.0"), after.at("param.0")), rests) << i;
    EXPECT_FALSE(at::equal(before.at("first.0"), after.at("first.0"))) << i;
  }
}

TEST_P(TrainingStep, GradientNormIsThatOfTheLossOnTheBatch) {
  config_.clip = 0.01;  // the norm is that before clipping
  SteppingTrainer stepped = trainer();
  const TrajectoryReader reader(config_.path);
  BatchFeed feed(reader, kTrajectories, config_.net.window, 3, {1 << 20, 0}, device_);
  const LabelSource labels{3, config_.method.lifting.dimension};
  for (std::int64_t i = 0; i < 8; ++i) {
    double squares = 0, loss = 0;
    {  // nothing of this may live on while the step is recorded (tensor/step_graph.h)
      const DeviceBatch batch = feed.get(kRows * i, kRows);
      const TransitionModel& model = stepped->model();
      const TrainingBatch scaled =
          model.training_batch(batch.window, batch.next, batch.transition, {}, 3);
      const Tensor error =
          model.backbone().forward(scaled.window, labels.for_transitions(batch.transition)) -
          scaled.target;
      for (const Tensor& grad :
           torch::autograd::grad({error.square().mean()}, model.backbone().parameters())) {
        squares += grad.to(at::kDouble).square().sum().item<double>();
      }
      loss = error.detach().square().mean().item<double>();
    }
    EXPECT_NEAR(stepped.step(0.2), loss, 1e-5 * loss) << i;
    EXPECT_NEAR(stepped->last_gradient_norm(), std::sqrt(squares), 1e-4 * std::sqrt(squares)) << i;
  }
}

// What enters the first moment, m' = b1 m + (1 - b1) g, has the norm of the bound.
TEST_P(TrainingStep, ClippingBoundsTheGradient) {
  config_.clip = 0.01;
  SteppingTrainer stepped = trainer();
  for (int i = 0; i < 8; ++i) {
    const NamedTensors before = stepped.copied_state();
    stepped.step(0.2);
    EXPECT_GT(stepped->last_gradient_norm(), 2 * config_.clip) << i;
    double squares = 0;
    for (const auto& [name, tensor] : stepped.copied_state()) {
      if (name.starts_with("first.")) {
        const Tensor entered =
            tensor.to(at::kDouble) - config_.beta1 * before.at(name).to(at::kDouble);
        squares += (entered / (1 - config_.beta1)).square().sum().item<double>();
      }
    }
    EXPECT_NEAR(std::sqrt(squares), config_.clip, 1e-4 * config_.clip) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainingStep,
                         testing::Combine(testing::ValuesIn(test_devices()),
                                          testing::Values("mlp", "unet"), testing::Bool()),
                         [](const auto& test) {
                           return std::get<1>(test.param) + "_" +
                                  (std::get<2>(test.param) ? "rollouts_" : "") +
                                  device_name(std::get<0>(test.param));
                         });

}  // namespace
}  // namespace slift
