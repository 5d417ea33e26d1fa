#include "rollout/stepper.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "methods/labels.h"
#include "methods/testing.h"
#include "nets/testing.h"
#include "rollout/chunk.h"
#include "rollout/step_check.h"
#include "tensor/runtime.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

constexpr std::uint64_t kLabelSeed = 11;
constexpr std::int64_t kSteps = 4 * StepGraph::kWarmups;

ModelSpec random_net_spec() {
  ModelSpec spec;
  spec.net.window = 3;
  spec.net.width = 32;
  spec.net.layers = 2;
  spec.state_shape = {2};
  spec.method.lifting.dimension = 5;
  spec.normaliser = {{0.1f, 0.2f}, {1.5f, 0.5f}, {0.3f, 0.1f}};
  return spec;
}

TransitionModel random_net(const ModelSpec& spec, const at::Device& device) {
  TransitionModel model(spec);
  model.backbone().initialise(1);
  model.to(device);
  return model;
}

// An MLP and two small UNets; the last, on a GPU, in bf16.
std::vector<TransitionModel> random_nets(const at::Device& device) {
  ModelSpec fields = random_net_spec();
  fields.net.kind = "unet";
  fields.net.width = NetConfig().width;
  fields.net.layers = NetConfig().layers;
  fields.net.window = 2;
  fields.net.widths = {8, 16};
  fields.net.label_width = 16;
  fields.state_shape = {2, 4, 8};
  fields.method.lifting.kind = "sphere";
  ModelSpec periodic = fields;
  periodic.net.padding = "circular";
  periodic.net.output = "direct";
  periodic.net.widths = {8};
  std::vector<TransitionModel> nets = {random_net(random_net_spec(), device),
                                       random_net(fields, device), random_net(periodic, device)};
  if (device.is_cuda()) nets.back().set_precision("bf16");
  return nets;
}

std::vector<std::int64_t> with_state(std::vector<std::int64_t> shape,
                                     const TransitionModel& model) {
  const std::vector<std::int64_t>& state = model.spec().state_shape;
  shape.insert(shape.end(), state.begin(), state.end());
  return shape;
}

Tensor label_of(const TransitionModel& model, const Tensor& member, std::int64_t step) {
  const ModelSpec& spec = model.spec();
  const LabelSource source{kLabelSeed, spec.method.lifting.dimension,
                           parse_label_kind(spec.method.lifting.kind)};
  return source.for_members(member, at_step(step));
}

// States 0 .. steps of members first .. first+count-1 on the CPU, [count, steps + 1, state...]: a
// plain loop over blocks of `rows`, nothing recorded, a new tensor for everything.
Tensor plain_rollout(const TransitionModel& model, std::int64_t rows, std::int64_t first,
                     const Tensor& initial, std::int64_t steps) {
  torch::NoGradGuard no_grad;
  const std::int64_t count = initial.size(0), given = initial.size(1);
  const std::int64_t base = first / rows * rows, end = (first + count + rows - 1) / rows * rows;
  Tensor all = at::zeros(with_state({end - base, steps + 1}, model));
  all.narrow(0, first - base, count).narrow(1, 0, given).copy_(initial);
  for (std::int64_t b = 0; b < end - base; b += rows) {
    const Tensor block = all.narrow(0, b, rows);
    const Tensor member = at::arange(base + b, base + b + rows, at::kLong);
    for (std::int64_t t = given - 1; t < steps; ++t) {
      std::vector<Tensor> window;
      for (std::int64_t i = t - model.spec().net.window + 1; i <= t; ++i) {
        window.push_back(block.select(1, std::max<std::int64_t>(i, 0)));
      }
      block.select(1, t + 1).copy_(model.forward(at::stack(window, 1).to(model.device()),
                                                 label_of(model, member, t).to(model.device())));
    }
  }
  return all.narrow(0, first - base, count);
}

class StepperTest : public testing::TestWithParam<at::Device> {
 protected:
  ~StepperTest() override { set_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(StepperTest, RecordedStepsAreTheEagerOnesBitForBit) {
  constexpr std::int64_t kRows = 6, kFirst = 12, kTime = 4;
  for (const TransitionModel& model : random_nets(GetParam())) {
    const Tensor window = normals(with_state({kRows, model.spec().net.window}, model), 1);
    const Tensor member = at::arange(kFirst, kFirst + kRows, at::kLong);
    Stepper recorded(model, kLabelSeed, kRows), eager(model, kLabelSeed, kRows, /*graph=*/false);
    // The second time all steps are recorded ones.
    for (int again = 0; again < 2; ++again) {
      recorded.load(kFirst, window.to(GetParam()), kTime);
      eager.load(kFirst, window.to(GetParam()), kTime);
      Tensor before = window;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        recorded.advance();
        eager.advance();
        const Tensor after = recorded.window().clone().cpu(), label = recorded.numbers().cpu();
        ASSERT_TRUE(at::equal(label, label_of(model, member, kTime + i))) << "step " << i;
        ASSERT_TRUE(at::equal(after, eager.window().cpu())) << "step " << i;
        // The window moved on by one state, the model's.
        ASSERT_TRUE(at::equal(after.slice(1, 0, -1), before.slice(1, 1)));
        torch::NoGradGuard no_grad;
        const Tensor next = model.forward(before.to(GetParam()), label.to(GetParam())).cpu();
        ASSERT_TRUE(at::equal(recorded.state().cpu(), next)) << "step " << i;
        ASSERT_TRUE(at::equal(recorded.state(1).cpu(), before.select(1, -1)));
        before = after;
      }
    }
  }
}

// Two chunks of several blocks through the same steppers, a piece of each in turn.
TEST_P(StepperTest, ChunksAreThePlainLoopBitForBit) {
  constexpr std::int64_t kRows = 4, kFirst = 2, kSplit = 6, kCount = 13, kPiece = 2;
  for (const TransitionModel& model : random_nets(GetParam())) {
    for (const std::int64_t given : {std::int64_t{1}, model.spec().net.window}) {
      const Tensor initial = normals(with_state({kCount, given}, model), 2);
      for (const int threads : {1, 2}) {
        set_threads(threads);
        const Tensor expected = plain_rollout(model, kRows, kFirst, initial, kSteps);
        Steppers steppers = make_steppers(model, kLabelSeed, kRows);
        EXPECT_EQ(steppers.size(), GetParam().is_cuda() ? 1u : static_cast<std::size_t>(threads));
        for (const std::int64_t every : {1, 3}) {
          Chunk head(steppers, kFirst, initial.narrow(0, 0, kSplit));
          Chunk tail(steppers, kFirst + kSplit, initial.slice(0, kSplit));
          const Tensor wanted = expected.slice(1, 0, kSteps + 1, every);
          const Tensor got = at::full_like(wanted, -7);
          std::atomic<std::int64_t> moved = 0;
          for (std::int64_t i = 0; i < wanted.size(1); i += kPiece) {
            const Tensor states = got.slice(1, i, i + kPiece);
            const auto advance = [&](Chunk& chunk, const Tensor& to) {
              const Tensor piece = at::empty(to.sizes());
              const auto wait =
                  chunk.advance(i * every, every, piece, [&](std::int64_t n) { moved += n; });
              if (wait) wait();
              to.copy_(piece);
            };
            advance(head, states.slice(0, 0, kSplit));
            advance(tail, states.slice(0, kSplit));
          }
          EXPECT_TRUE(at::equal(got, wanted))
              << "given " << given << ", every " << every << ", threads " << threads;
          EXPECT_EQ(moved, kCount * (kSteps + 1 - given));
        }
      }
    }
  }
}

TEST_P(StepperTest, PassesItsCheck) {
  for (const TransitionModel& model : random_nets(GetParam())) {
    Stepper recorded(model, kLabelSeed, 5), eager(model, kLabelSeed, 5, /*graph=*/false);
    const Tensor window = normals(with_state({5, model.spec().net.window}, model), 1);
    const StepCheck check = check_step(model, recorded, eager, 7, window.to(GetParam()), 2);
    EXPECT_TRUE(check.passed()) << check.in_words();
    EXPECT_EQ(check.steps, 10);
    EXPECT_EQ(check.recorded, GetParam().is_cuda());
    // Both began at the window given, and ended ten steps later.
    const Tensor label = label_of(model, at::arange(7, 12, at::kLong), 2 + 10 - 1);
    EXPECT_TRUE(at::equal(recorded.numbers().cpu(), label));
    EXPECT_TRUE(at::equal(eager.numbers().cpu(), label));
  }
}

TEST_P(StepperTest, FailsItsCheckForOtherLabelsOrStates) {
  const TransitionModel model = random_net(random_net_spec(), GetParam());
  const auto on_device = [](const Tensor& x) { return x.to(GetParam()); };
  const StepRun right = {on_device(normals({10, 4, 5}, 1)), on_device(normals({10, 4, 2}, 2))};
  EXPECT_TRUE(compare_steps(model, right, right).passed());
  EXPECT_EQ(compare_steps(model, right, right).largest_difference, 0);

  StepRun other = {right.labels.clone(), right.states};
  other.labels[9][3][4].mul_(1 + 0x1p-23);
  EXPECT_FALSE(compare_steps(model, right, other).labels_equal);
  EXPECT_FALSE(compare_steps(model, right, other).passed());

  // The second component has a standard deviation of 0.5.
  for (const double difference : {2e-6, -2e-4, std::nan("")}) {
    other = {right.labels, right.states.clone()};
    other.states[9][3].fill_(1), right.states[9][3].fill_(1);
    other.states[9][3][1].add_(difference);
    const StepCheck check = compare_steps(model, right, other);
    EXPECT_TRUE(check.labels_equal);
    EXPECT_EQ(check.passed(), difference == 2e-6) << check.in_words();
    if (std::isnan(difference)) continue;
    EXPECT_NEAR(check.largest_difference, std::abs(difference) / 0.5, 3e-7);
  }
}

TEST(Steppers, HalveTheRowsUntilTheyFit) {
  std::vector<std::int64_t> tried;
  halve_until_it_fits(100, [&](std::int64_t rows) {
    tried.push_back(rows);
    TORCH_CHECK_WITH(OutOfMemoryError, rows <= 12, "no memory");
  });
  EXPECT_EQ(tried, (std::vector<std::int64_t>{100, 50, 25, 12}));

  tried.clear();
  const auto never = [&](std::int64_t rows) {
    tried.push_back(rows);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory");
  };
  EXPECT_THROW(halve_until_it_fits(3, never), c10::OutOfMemoryError);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{3, 1}));
  EXPECT_THROW(halve_until_it_fits(8, [](std::int64_t) { TORCH_CHECK(false, "another error"); }),
               c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, StepperTest, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
