#include "rollout/rollout.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <csignal>
#include <cstdlib>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"
#include "methods/labels.h"
#include "methods/testing.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

namespace fs = std::filesystem;

ModelSpec make_spec(std::int64_t state, std::int64_t window, std::int64_t label,
                    const std::string& output) {
  ModelSpec spec;
  spec.net.window = window;
  spec.net.output = output;
  spec.state_shape = {state};
  spec.method.lifting.dimension = label;
  const auto n = static_cast<std::size_t>(state);
  spec.normaliser = {std::vector<float>(n, 0.0f), std::vector<float>(n, 1.0f),
                     std::vector<float>(n, 1.0f)};
  spec.system = "test";
  spec.boundary = "none";
  spec.dt = 0.5;
  return spec;
}

// A network that is one matrix [state, window * state + label], without scales.
TransitionModel linear_model(ModelSpec spec, const Tensor& weight) {
  spec.net.layers = 0;
  TransitionModel model(std::move(spec));
  torch::NoGradGuard no_grad;
  auto params = model.backbone().named_parameters();
  params["weight0"].copy_(weight);
  params["bias0"].zero_();
  return model;
}

class Rollout : public testing::Test {
 protected:
  Rollout() { Progress::set_enabled(false); }
  ~Rollout() override { set_threads(threads_); }

  // A trajectory file whose first states are `first` [members, state]; later ones are 99.
  TrajectoryReader write_initial(const std::vector<float>& first, std::int64_t state) const {
    TrajectoryInfo info;
    info.members = static_cast<std::int64_t>(first.size()) / state;
    info.steps = 2;
    info.state_shape = {state};
    std::vector<float> states;
    for (std::size_t i = 0; i < first.size(); i += static_cast<std::size_t>(state)) {
      states.insert(states.end(), &first[i], &first[i] + state);
      states.insert(states.end(), static_cast<std::size_t>(state), 99.0f);
    }
    const fs::path path = folder_ / "initial.h5";
    TrajectoryWriter writer(path, info);
    writer.write(0, info.members, states);
    writer.commit();
    return TrajectoryReader(path);
  }
  // The states of a rollout through a file, [members, steps + 1, state].
  Tensor roll_out(const TransitionModel& model, const TrajectoryReader& initial,
                  const RolloutOptions& options) const {
    const fs::path out = folder_ / "out.h5";
    const TrajectoryInfo info = roll_out_to_file(model, initial, options, out);
    EXPECT_EQ(info.members, options.members);
    EXPECT_EQ(info.steps, options.steps / options.every + 1);
    const TrajectoryReader reader(out);
    EXPECT_EQ(reader.info().describe_shape(), info.describe_shape());
    Tensor states = at::empty({info.members, info.steps, info.state_size()});
    reader.read(0, info.members,
                {states.data_ptr<float>(), static_cast<std::size_t>(states.numel())});
    return states;
  }

  TestFolder folder_;

 private:
  int threads_ = at::get_num_threads();
};

// Shortcuts of 32 and more channels, which LibTorch's 1 x 1 convolutions add up by threads.
TEST_F(Rollout, BitsOfAUnetDoNotDependOnThreads) {
  ModelSpec spec = make_spec(1, 2, 5, "residual");
  spec.net.kind = "unet";
  spec.net.widths = {32, 64};
  spec.net.padding = "circular";
  spec.state_shape = {1, 8, 8};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  TrajectoryInfo info;
  info.members = 6;
  info.steps = 1;
  info.state_shape = spec.state_shape;
  std::vector<float> first(6 * 64);
  fill_normal({1, Purpose::kInitialState, 0, 0}, first);
  TrajectoryWriter writer(folder_ / "fields.h5", info);
  writer.write(0, info.members, first);
  writer.commit();
  const TrajectoryReader initial(folder_ / "fields.h5");
  // All members in one network evaluation, and two at a time.
  for (const std::int64_t batch : {6, 2}) {
    const RolloutOptions options{.members = 6, .steps = 2, .seed = 3, .batch = batch};
    set_threads(1);
    const Tensor expected = roll_out(model, initial, options);
    set_threads(2);
    EXPECT_TRUE(at::equal(roll_out(model, initial, options), expected)) << "batch " << batch;
  }
}

TEST_F(Rollout, BitsDoNotDependOnChunksOrThreads) {
  ModelSpec spec = make_spec(2, 2, 5, "residual");
  spec.net.width = 256;
  spec.net.layers = 2;
  TransitionModel model(spec);
  model.backbone().initialise(1);
  std::vector<float> first(200);
  fill_normal({1, Purpose::kInitialState, 0, 0}, first);
  const TrajectoryReader initial = write_initial(first, 2);
  const RolloutOptions options{.members = 100, .steps = 4, .seed = 3};
  set_threads(1);
  const Tensor expected = roll_out(model, initial, options);
  for (const int threads : {1, 2}) {
    set_threads(threads);
    for (const std::int64_t chunk : {1, 37, 100}) {
      RolloutOptions chunked = options;
      chunked.chunk = chunk;
      EXPECT_TRUE(at::equal(roll_out(model, initial, chunked), expected))
          << "chunk " << chunk << ", threads " << threads;
    }
    // Pieces of two chunks of members and of one, two and all states.
    for (const std::int64_t states : {0, 2, 5}) {
      RolloutOptions cut = options;
      cut.chunk = 64;
      cut.memory = 3 * 64 * states * 2 * 4;
      EXPECT_TRUE(at::equal(roll_out(model, initial, cut), expected)) << states << " states";
    }
  }
  RolloutOptions fewer = options;
  fewer.members = 70;
  EXPECT_TRUE(at::equal(roll_out(model, initial, fewer), expected.slice(0, 0, 70)));
  RolloutOptions reseeded = options;
  reseeded.seed = 4;
  const Tensor other = roll_out(model, initial, reseeded);
  EXPECT_TRUE(at::equal(other.select(1, 0), expected.select(1, 0)));
  EXPECT_EQ((other.slice(1, 1) == expected.slice(1, 1)).all(-1).sum().item<std::int64_t>(), 0);
}

TEST_F(Rollout, UsesTheLabelOfMemberAndStep) {
  // next = last + label.
  const Tensor weight = at::cat({at::zeros({3, 3}), at::eye(3)}, 1);
  const TransitionModel model = linear_model(make_spec(3, 1, 3, "residual"), weight);
  std::vector<float> first(3 * 150);
  fill_normal({2, Purpose::kInitialState, 0, 0}, first);
  const TrajectoryReader initial = write_initial(first, 3);
  const Tensor got = roll_out(model, initial, {.members = 150, .steps = 5, .seed = 8, .chunk = 41});
  const LabelSource labels{8, 3};
  Tensor state = at::tensor(first).view({150, 3});
  EXPECT_TRUE(at::equal(got.select(1, 0), state));
  for (std::int64_t step = 0; step < 5; ++step) {
    state = state + labels.for_members(at::arange(150, at::kLong), at_step(step));
    EXPECT_TRUE(at::equal(got.select(1, step + 1), state)) << step;
  }
}

TEST_F(Rollout, SphereLabelsAreUsedWhereTheModelSaysSo) {
  ModelSpec spec = make_spec(2, 1, 2, "direct");
  spec.method.lifting.kind = "sphere";
  const Tensor weight = at::cat({at::zeros({2, 2}), at::eye(2)}, 1);
  const TransitionModel model = linear_model(spec, weight);
  const TrajectoryReader initial = write_initial({0, 0}, 2);
  const Tensor got = roll_out(model, initial, {.members = 10, .steps = 2});
  const LabelSource labels{0, 2, kernels::LabelKind::kSphere};
  EXPECT_TRUE(
      at::equal(got.select(1, 2), labels.for_members(at::arange(10, at::kLong), at_step(1))));
}

TEST_F(Rollout, WindowIsPaddedWithTheFirstStateAndSlides) {
  // next = oldest + 10 middle + 100 last; all values are integers below 2^24.
  const TransitionModel model =
      linear_model(make_spec(1, 3, 0, "direct"), at::tensor({1.0f, 10.0f, 100.0f}).view({1, 3}));
  const TrajectoryReader initial = write_initial({1, 2}, 1);
  const Tensor got = roll_out(model, initial, {.members = 2, .steps = 3});
  const Tensor expected = at::tensor({1.0f, 111.0f, 11111.0f, 1112211.0f});
  EXPECT_TRUE(at::equal(got[0].view(-1), expected)) << got[0];
  EXPECT_TRUE(at::equal(got[1].view(-1), 2 * expected)) << got[1];
}

TEST_F(Rollout, InitialStatesGoRound) {
  const TransitionModel model = linear_model(make_spec(1, 1, 0, "residual"), at::zeros({1, 1}));
  const TrajectoryReader initial = write_initial({10, 11, 12}, 1);
  const Tensor got =
      roll_out(model, initial, {.members = 5, .steps = 1, .first_initial = 2, .chunk = 2});
  for (const std::int64_t step : {0, 1}) {
    EXPECT_TRUE(at::equal(got.select(1, step).view(-1), at::tensor({12.f, 10.f, 11.f, 12.f, 10.f})))
        << step;
  }
}

TEST_F(Rollout, BranchesShareTheirInitialState) {
  const TransitionModel model = linear_model(make_spec(1, 1, 0, "residual"), at::zeros({1, 1}));
  const TrajectoryReader initial = write_initial({10, 11, 12}, 1);
  const Tensor got =
      roll_out(model, initial,
               {.members = 6, .steps = 1, .first_initial = 1, .branches = 2, .first_member = 1});
  EXPECT_TRUE(
      at::equal(got.select(1, 1).view(-1), at::tensor({11.f, 12.f, 12.f, 10.f, 10.f, 11.f})))
      << got;
  EXPECT_EQ(TrajectoryReader(folder_ / "out.h5").info().branches, 2);
}

TEST_F(Rollout, SomeMembersOrStatesAreThoseOfTheFullRun) {
  ModelSpec spec = make_spec(2, 3, 5, "residual");
  spec.net.width = 32;
  spec.net.layers = 1;
  TransitionModel model(spec);
  model.backbone().initialise(1);
  std::vector<float> first(14);
  fill_normal({1, Purpose::kInitialState, 0, 0}, first);
  const TrajectoryReader initial = write_initial(first, 2);
  const RolloutOptions options{.members = 200, .steps = 8, .seed = 3};
  const Tensor full = roll_out(model, initial, options);

  RolloutOptions some = options;
  some.first_member = 50, some.members = 90;
  for (const std::int64_t chunk : {0, 64}) {
    some.chunk = chunk;
    EXPECT_TRUE(at::equal(roll_out(model, initial, some), full.slice(0, 50, 140))) << chunk;
    EXPECT_EQ(TrajectoryReader(folder_ / "out.h5").info().first_member, 50);
  }

  RolloutOptions batched = options;
  batched.batch = 24;
  const Tensor full_batched = roll_out(model, initial, batched);
  EXPECT_TRUE(at::allclose(full_batched, full, 1e-4, 1e-5));
  batched.first_member = 50, batched.members = 90, batched.chunk = 30;
  EXPECT_TRUE(at::equal(roll_out(model, initial, batched), full_batched.slice(0, 50, 140)));

  RolloutOptions thinned = options;
  thinned.every = 3;
  for (const std::int64_t memory : {256 << 20, 0}) {
    thinned.memory = memory;
    EXPECT_TRUE(at::equal(roll_out(model, initial, thinned), full.slice(1, 0, 9, 3))) << memory;
    EXPECT_EQ(TrajectoryReader(folder_ / "out.h5").info().dt, 1.5);
  }
  EXPECT_NE(error_of([&] { roll_out(model, initial, {.steps = 2, .every = 3}); }), "");
}

TEST_F(Rollout, StartsFromTheFirstWindowIfAsked) {
  // next = oldest + 10 last + label.
  const Tensor weight = at::tensor({1.0f, 0.0f, 10.0f, 1.0f}).view({1, 4});
  const TransitionModel model = linear_model(make_spec(1, 3, 1, "direct"), weight);
  TrajectoryInfo info;
  info.members = 2, info.steps = 4, info.state_shape = {1};
  TrajectoryWriter writer(folder_ / "windows.h5", info);
  writer.write(0, 2, std::vector<float>{1, 2, 3, 99, 4, 5, 6, 99});
  writer.commit();
  const TrajectoryReader initial(folder_ / "windows.h5");
  RolloutOptions options{.members = 2, .steps = 5, .seed = 6, .first_window = true};
  const Tensor got = roll_out(model, initial, options).squeeze(2);
  const LabelSource labels{6, 1};
  for (std::int64_t m = 0; m < 2; ++m) {
    std::vector<float> states = {3.0f * static_cast<float>(m) + 1, 3.0f * static_cast<float>(m) + 2,
                                 3.0f * static_cast<float>(m) + 3};
    for (std::int64_t t = 2; t < 5; ++t) {
      const Tensor label = labels.for_members(at::arange(2, at::kLong), at_step(t))[m];
      const std::size_t n = states.size();
      states.push_back(states[n - 3] + 10 * states[n - 1] + label.item<float>());
    }
    EXPECT_TRUE(at::allclose(got[m], at::tensor(states), 1e-6, 0)) << got[m] << at::tensor(states);
    EXPECT_TRUE(at::equal(got[m].slice(0, 0, 3), at::tensor(states).slice(0, 0, 3)));
  }
  options.every = 2;
  EXPECT_TRUE(at::equal(roll_out(model, initial, options).squeeze(2), got.slice(1, 0, 6, 2)));
  options.every = 1, options.steps = 2;
  EXPECT_NE(error_of([&] { roll_out(model, initial, options); }), "");
  options.steps = 5;
  const TrajectoryReader pairs = write_initial({1}, 1);
  EXPECT_NE(error_of([&] { roll_out(model, pairs, options); }).find(pairs.path()),
            std::string::npos);
}

TEST_F(Rollout, KeepsWhatTheMapKeeps) {
  const TransitionModel model = linear_model(make_spec(2, 1, 0, "residual"), at::eye(2));
  const TrajectoryReader initial = write_initial({1, 2, 3, 4}, 2);
  const StateMap sum{{1},
                     {"sum"},
                     R"({"numbers": "sum"})",
                     [](std::span<const float> state, std::span<float> kept) {
                       kept[0] = state[0] + 10 * state[1];
                     }};
  roll_out_to_file(model, initial, {.members = 2, .steps = 2}, sum, folder_ / "out.h5");
  const TrajectoryReader reader(folder_ / "out.h5");
  EXPECT_EQ(reader.info().state_shape, std::vector<std::int64_t>{1});
  EXPECT_EQ(reader.info().fields, std::vector<std::string>{"sum"});
  EXPECT_EQ(reader.info().record, sum.record);
  std::vector<float> kept(6);
  reader.read(0, 2, kept);
  EXPECT_EQ(kept, (std::vector<float>{21, 42, 84, 43, 86, 172}));
}

TEST_F(Rollout, FileSaysWhatItIs) {
  ModelSpec spec = make_spec(1, 1, 0, "residual");
  spec.boundary = "periodic";
  spec.fields = {"height"};
  const TransitionModel model = linear_model(spec, at::zeros({1, 1}));
  roll_out(model, write_initial({1}, 1), {.members = 1, .steps = 2, .seed = 17});
  const TrajectoryReader reader(folder_ / "out.h5");
  EXPECT_EQ(reader.info().system, "test");
  EXPECT_EQ(reader.info().boundary, "periodic");
  EXPECT_EQ(reader.info().dt, 0.5);
  EXPECT_EQ(reader.info().seed, 17u);
  EXPECT_EQ(reader.info().fields, std::vector<std::string>{"height"});
}

TEST_F(Rollout, DivergenceNamesMemberAndStepAndLeavesNoFile) {
  // Member 70 starts from 1 and grows by 1e10 a step: 1e40 at step 4 is no float32.
  const TransitionModel model = linear_model(make_spec(1, 1, 0, "direct"), at::full({1, 1}, 1e10));
  std::vector<float> first(100, 0.0f);
  first[70] = 1;
  const TrajectoryReader initial = write_initial(first, 1);
  for (const std::int64_t chunk : {100, 30}) {
    std::string message;
    try {
      roll_out_to_file(model, initial, {.members = 100, .steps = 6, .chunk = chunk},
                       folder_ / "out.h5");
    } catch (const UserError& error) {
      FAIL() << "not the user's mistake: " << error.what();
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("member 70 is inf at step 4"), std::string::npos) << message;
    EXPECT_EQ(folder_.files(), std::vector<std::string>{"initial.h5"});
  }
  try {
    roll_out_to_file(model, initial, {.members = 20, .steps = 9, .first_member = 60, .every = 3},
                     folder_ / "out.h5");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("member 70 is inf at step 6"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"initial.h5"});
}

TEST_F(Rollout, StatesThatDoNotFitAreRefused) {
  const TransitionModel model = linear_model(make_spec(2, 1, 0, "direct"), at::eye(2));
  const TrajectoryReader initial = write_initial({1, 2, 3}, 3);
  try {
    roll_out_to_file(model, initial, {}, folder_ / "out.h5");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(initial.path()), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"initial.h5"});
}

// An interrupt cannot be taken back: a process of its own.
TEST(RolloutDeathTest, InterruptLeavesNoFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupted = [] {
    install_interrupt_handlers();
    std::raise(SIGINT);
    int status = 1;
    {
      const TestFolder folder;
      {
        TrajectoryInfo info;
        info.members = info.steps = 1;
        info.state_shape = {1};
        TrajectoryWriter writer(folder / "in.h5", info);
        writer.write(0, 1, std::vector<float>{1.0f});
        writer.commit();
      }
      const TransitionModel model = linear_model(make_spec(1, 1, 0, "direct"), at::eye(1));
      try {
        roll_out_to_file(model, TrajectoryReader(folder / "in.h5"), {}, folder / "out.h5");
      } catch (const Interrupted&) {
        status = folder.files() == std::vector<std::string>{"in.h5"} ? 42 : 2;
      }
    }
    std::_Exit(status);
  };
  EXPECT_EXIT(interrupted(), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace slift
