#include "training/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <sstream>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"
#include "methods/labels.h"
#include "tensor/safetensors.h"
#include "training/checkpoint.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMembers = 24, kStates = 15;

// A few Duffing trajectories (method.md, section 2), by Euler-Maruyama with 10 inner steps.
void write_duffing(const fs::path& path, std::uint64_t seed = 1) {
  TrajectoryInfo info;
  info.members = kMembers;
  info.steps = kStates;
  info.state_shape = {2};
  info.dt = 0.2;
  info.system = "duffing";
  std::vector<float> states;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    float noise[2 + 10 * kStates];
    fill_normal({seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(m), 0}, noise);
    double x = std::sqrt(0.5) * noise[0], v = 10 + std::sqrt(0.5) * noise[1];
    for (std::int64_t t = 0; t < kStates; ++t) {
      states.push_back(static_cast<float>(x));
      states.push_back(static_cast<float>(v));
      for (std::int64_t i = 0; i < 10; ++i) {
        const double force = -0.4 * v + x - 0.2 * x * x * x, dt = 0.02;
        x += v * dt;
        v += force * dt + std::sqrt(dt) * noise[2 + 10 * t + i];
      }
    }
  }
  TrajectoryWriter writer(path, info);
  writer.write(0, kMembers, states);
  writer.commit();
}

// A trainer in a process of its own.
class LoneTrainer {
 public:
  explicit LoneTrainer(const TrainConfig& config)
      : iterations_(static_cast<double>(config.iterations)), trainer_(config, ranks_) {}
  Trainer* operator->() { return &trainer_; }
  double step() {
    bool stop = false;
    return trainer_.step(static_cast<double>(trainer_.iteration()) / iterations_, stop)
        .item<double>();
  }

 private:
  double iterations_;
  Ranks ranks_{RankInfo{}, at::kCPU};
  Trainer trainer_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The lines of metrics.jsonl, without the one entry that may differ between equal runs.
std::vector<json> metrics(const fs::path& run) {
  std::vector<json> lines;
  std::istringstream in(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
    lines.back().erase("seconds");
  }
  return lines;
}

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() : TrainerTest(std::nullopt) {}
  // In `shared` if given, else in a folder of its own.
  explicit TrainerTest(const std::optional<fs::path>& shared) {
    init_logging(/*quiet=*/true);
    Progress::set_enabled(false);
    if (!shared) own_.emplace();
    folder_ = shared ? *shared : own_->path();
    config_.seed = 5;
    config_.path = (folder_ / "duffing.h5").string();
    if (!fs::exists(config_.path)) write_duffing(config_.path);
    config_.method.lifting.dimension = 3;
    config_.net.window = 2;
    config_.net.width = 16;
    config_.net.layers = 2;
    config_.warmup = 5;
    config_.ema = 0.9;
    config_.iterations = 21;
    config_.batch = 100;  // three and a bit to an epoch of 336 transitions
    config_.log_every = 5;
    config_.checkpoint_every = 8;
  }

  fs::path run(const std::string& name) const { return folder_ / name; }
  static std::string model_bytes(const fs::path& run_folder) {
    return read_file(run_folder / "model.safetensors");
  }

  std::optional<TestFolder> own_;
  fs::path folder_;
  TrainConfig config_;
};

TEST_F(TrainerTest, LossFalls) {
  config_.iterations = 300;
  config_.lr = 3e-3;
  config_.net.width = 64;
  config_.log_every = 1;
  const TrainResult result = train(config_, {run("a")});
  const std::vector<json> lines = metrics(run("a"));
  ASSERT_EQ(lines.size(), 300u);
  // The targets have variance 1 in the loss's units, and a new model predicts about 0.
  EXPECT_NEAR(lines.front().at("loss").get<double>(), 1, 0.4);
  EXPECT_LT(result.loss, 0.1 * lines.front().at("loss").get<double>());
  EXPECT_EQ(result.loss, lines.back().at("loss").get<double>());
  EXPECT_EQ(result.iterations, 300);
  EXPECT_EQ(lines.back().at("step"), 300);
  EXPECT_NEAR(lines.back().at("lr").get<double>(), 3e-3 * schedule(299, 5, 299.0 / 300), 1e-15);
  const TransitionModel model = load_model(result.model);
  EXPECT_EQ(model.parameter_count(), result.parameters);
  EXPECT_EQ(model.spec().config.at("optim").at("lr"), 3e-3);
  EXPECT_EQ(model.spec().system, "duffing");
}

// Through more than one epoch: a transition keeps its label when it comes back.
TEST_F(TrainerTest, LossIsTheRegressionOnOneFixedLabelPerTransition) {
  LoneTrainer trainer(config_);
  const TrajectoryReader reader(config_.path);
  TransitionSampler sampler(reader, kMembers, 2, 5, 1 << 30);
  const LabelSource labels{5, 3};
  for (std::int64_t i = 0; i < 5; ++i) {
    Batch batch;
    sampler.fill(100 * i, 100, batch);
    const Tensor window = at::tensor(batch.window).view({100, 2, 2});
    const Tensor label = labels.for_transitions(at::tensor(batch.transition, at::kLong));
    const TrainingBatch scaled =
        trainer->model().training_batch(window, at::tensor(batch.next).view({100, 2}), {}, {}, 5);
    const Tensor error = trainer->model().backbone().forward(scaled.window, label) - scaled.target;
    const double expected = error.square().mean().item<double>();
    EXPECT_NEAR(trainer.step(), expected, 1e-6 * expected) << i;
  }
}

TEST_F(TrainerTest, AccumulatingPartsIsTheSameStep) {
  LoneTrainer whole(config_);
  config_.accumulate = 4;
  LoneTrainer parts(config_);
  for (int i = 0; i < 10; ++i) {
    const double loss = whole.step();
    EXPECT_NEAR(parts.step(), loss, 1e-5 * loss);
  }
  const auto a = whole->optimizer().state(), b = parts->optimizer().state();
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(at::allclose(tensor, b.at(name), 1e-4, 1e-6)) << name;
  }
  config_.accumulate = 3;
  EXPECT_TRUE(contains(error_of([&] { LoneTrainer refused(config_); }), "train.accumulate = 3"));
}

TEST_F(TrainerTest, AveragedWeightsAreLentAndTakenBack) {
  LoneTrainer trainer(config_);
  for (int i = 0; i < 5; ++i) trainer.step();
  const Tensor before = trainer->model().backbone().parameters()[0].clone();
  trainer->with_averaged_weights([&](const TransitionModel& model) {
    EXPECT_TRUE(at::equal(model.backbone().parameters()[0], model.backbone().weights().best()[0]));
    EXPECT_FALSE(at::equal(model.backbone().parameters()[0], before));
  });
  EXPECT_TRUE(at::equal(trainer->model().backbone().parameters()[0], before));
}

TEST_F(TrainerTest, SameSeedSameBits) {
  LoneTrainer a(config_), b(config_);
  config_.seed = 6;
  LoneTrainer other(config_);
  for (int i = 0; i < 10; ++i) {
    const double loss = a.step();
    EXPECT_EQ(b.step(), loss);
    EXPECT_NE(other.step(), loss);
    EXPECT_EQ(a->last_gradient_norm(), b->last_gradient_norm());
  }
  const auto state = a->optimizer().state(), same = b->optimizer().state();
  for (const auto& [name, tensor] : state) EXPECT_TRUE(at::equal(tensor, same.at(name))) << name;
  EXPECT_FALSE(at::equal(state.at("param.0"), other->optimizer().state().at("param.0")));
}

// A run that was killed: its newest checkpoint is half-way, its log and folder are ahead of it.
TEST_F(TrainerTest, KilledAndResumedEndsWithTheSameBytes) {
  train(config_, {run("whole")});
  train(config_, {run("killed")});
  EXPECT_TRUE(model_bytes(run("killed")) == model_bytes(run("whole")));
  fs::remove_all(run("killed") / "checkpoints" / "step-00000021");
  fs::create_directories(run("killed") / "checkpoints" / "step-00000020.partial");
  fs::remove(run("killed") / "model.safetensors");
  ASSERT_TRUE(fs::exists(run("killed") / "checkpoints" / "step-00000016"));

  const TrainResult result = train(config_, {run("killed"), /*resume=*/true});
  EXPECT_EQ(result.iterations, 21);
  EXPECT_TRUE(model_bytes(run("killed")) == model_bytes(run("whole")));
  EXPECT_EQ(metrics(run("killed")), metrics(run("whole")));
  const fs::path state = fs::path("checkpoints") / "step-00000021" / "state.safetensors";
  const SafeTensors whole = read_safetensors(run("whole") / state);
  const SafeTensors killed = read_safetensors(run("killed") / state);
  for (const auto& [name, tensor] : whole.tensors) {
    EXPECT_TRUE(at::equal(killed.at(name, "killed"), tensor)) << name;
  }
}

// Killed before the stretch that looks at rollouts, and in it.
TEST_F(TrainerTest, RolloutsAreTheSameAfterAResume) {
  config_.score = {.from = 0.5, .members = 4, .truths = 6};
  train(config_, {run("whole")});
  const std::vector<json> lines = metrics(run("whole"));
  EXPECT_FALSE(lines.at(1).contains("score"));  // 10 of 21 steps
  EXPECT_GT(lines.at(2).at("score").get<double>(), 0);
  for (const char* last : {"step-00000016", "step-00000008"}) {
    train(config_, {run(last)});
    fs::remove(run(last) / "model.safetensors");
    for (const auto& entry : fs::directory_iterator(run(last) / "checkpoints")) {
      if (entry.path().filename().string() > last) fs::remove_all(entry.path());
    }
    train(config_, {run(last), /*resume=*/true});
    EXPECT_TRUE(model_bytes(run(last)) == model_bytes(run("whole"))) << last;
    EXPECT_EQ(metrics(run(last)), lines) << last;
  }
}

TEST_F(TrainerTest, RolloutsThatCannotBeScoredAreRefused) {
  config_.score.from = 0.5;
  config_.score.steps = kStates;
  EXPECT_TRUE(contains(error_of([&] { LoneTrainer refused(config_); }),
                       "score.steps = 15: trajectories of " + config_.path + " have 14 steps"));
}

TEST_F(TrainerTest, ResumingAFinishedRunChangesNothing) {
  const double loss = train(config_, {run("a")}).loss;
  const std::string bytes = model_bytes(run("a"));
  EXPECT_EQ(train(config_, {run("a"), /*resume=*/true}).loss, loss);
  EXPECT_TRUE(model_bytes(run("a")) == bytes);
  EXPECT_EQ(metrics(run("a")).size(), 5u);
}

TEST_F(TrainerTest, ResumeWithoutARunStartsOne) {
  EXPECT_EQ(train(config_, {run("a"), /*resume=*/true}).iterations, 21);
}

TEST_F(TrainerTest, ResumeRefusesAnotherExperiment) {
  train(config_, {run("a")});
  TrainConfig other = config_;
  other.lr = 2e-3;
  const std::string error = error_of([&] { train(other, {run("a"), /*resume=*/true}); });
  EXPECT_TRUE(contains(error, "optim.lr")) << error;
  EXPECT_TRUE(contains(error, "0.001") && contains(error, "0.002")) << error;
  other = config_;
  other.log_every = 3;
  other.checkpoint_every = 4;
  other.threads = 1;
  other.graph = false;
  EXPECT_EQ(error_of([&] { train(other, {run("a"), /*resume=*/true}); }), "");
}

TEST_F(TrainerTest, ResumeRefusesOtherDataAndKeepsTheModel) {
  train(config_, {run("a")});
  const std::string bytes = model_bytes(run("a"));
  const std::vector<json> log = metrics(run("a"));
  write_duffing(config_.path, /*seed=*/2);
  const std::string error = error_of([&] { train(config_, {run("a"), /*resume=*/true}); });
  EXPECT_TRUE(contains(error, run("a").string())) << error;
  EXPECT_TRUE(contains(error, "not those this run was trained on: mean")) << error;
  EXPECT_TRUE(model_bytes(run("a")) == bytes);
  EXPECT_EQ(metrics(run("a")), log);
  write_duffing(config_.path);
  EXPECT_EQ(error_of([&] { train(config_, {run("a"), /*resume=*/true}); }), "");
}

TEST_F(TrainerTest, AnExistingRunIsNotOverwrittenByChance) {
  train(config_, {run("a")});
  const std::string bytes = model_bytes(run("a"));
  config_.seed = 6;
  const std::string error = error_of([&] { train(config_, {run("a")}); });
  EXPECT_TRUE(contains(error, run("a").string()) && contains(error, "--resume")) << error;
  EXPECT_TRUE(model_bytes(run("a")) == bytes);
  train(config_, {run("a"), /*resume=*/false, /*overwrite=*/true});
  EXPECT_FALSE(model_bytes(run("a")) == bytes);
  EXPECT_EQ(metrics(run("a")).size(), 5u);
}

TEST_F(TrainerTest, OverwritingRemovesWhatBelongsToTheOldModelAndNothingElse) {
  train(config_, {run("a")});
  for (const char* name :
       {"rollout.h5", "rollout.h5.partial", "rollout.h5.partial.journal", "validation.h5",
        "validation.h5.partial", "validation.h5.partial.journal", "evaluation.json", "report.html",
        "notes.txt"}) {
    write_file_atomically(run("a") / name, "of the old model");
  }
  train(config_, {run("a"), /*resume=*/false, /*overwrite=*/true});
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run("a"))) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("events.")) names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"checkpoints", "config.toml", "metrics.jsonl",
                                          "model.safetensors", "notes.txt"}));
}

TEST_F(TrainerTest, OverwritingRefusesToRemoveItsOwnData) {
  train(config_, {run("a")});
  const std::string bytes = model_bytes(run("a"));
  TrainConfig other = config_;
  other.path = (run("a") / "rollout.h5").string();
  fs::copy_file(config_.path, other.path);
  const std::string error = error_of([&] {
    train(other, {run("a"), /*resume=*/false, /*overwrite=*/true});
  });
  EXPECT_TRUE(contains(error, other.path + ": --overwrite would remove it")) << error;
  EXPECT_TRUE(fs::exists(other.path) && model_bytes(run("a")) == bytes);
}

TEST_F(TrainerTest, ASecondTrainingInTheFolderIsRefusedAndHarmless) {
  train(config_, {run("alone")});
  int tried = 0;
  const auto intrude = [&](const TransitionModel&) -> Scores {
    const fs::path unfinished = run("a") / "checkpoints" / "step-00000099.partial";
    fs::create_directories(unfinished);
    for (const bool resume : {true, false}) {
      const std::string error = error_of([&] { train(config_, {run("a"), resume, !resume}); });
      EXPECT_TRUE(contains(error, run("a").string() + ": another slift is training")) << error;
      ++tried;
    }
    EXPECT_TRUE(fs::exists(unfinished));
    return {};
  };
  train(config_, {run("a"), /*resume=*/false, /*overwrite=*/false, intrude});
  EXPECT_EQ(tried, 2);
  EXPECT_TRUE(model_bytes(run("a")) == model_bytes(run("alone")));
  EXPECT_FALSE(fs::exists(run("a") / "train.lock"));
}

TEST_F(TrainerTest, BadInputLeavesNoRun) {
  const auto refused = [&](const TrainConfig& config, const std::string& word) {
    const std::string error = error_of([&] { train(config, {run("a")}); });
    return contains(error, word) && !fs::exists(run("a"));
  };
  TrainConfig bad = config_;
  bad.path = "";
  EXPECT_TRUE(refused(bad, "data.path"));
  bad.path = (folder_ / "none.h5").string();
  EXPECT_TRUE(refused(bad, bad.path));
  bad = config_;
  bad.members = kMembers + 1;
  EXPECT_TRUE(refused(bad, "data.members"));
  bad = config_;
  bad.device = "tpu";
  EXPECT_TRUE(refused(bad, "device"));
}

class Diverging : public TrainerTest, public testing::WithParamInterface<double> {};

// 1e20 makes the next loss overflow; 1e38 makes the weights infinite at once, while the loss that
// belongs to that step is still finite.
TEST_P(Diverging, StopsAndTheLastCheckpointIsGood) {
  config_.lr = GetParam();
  config_.clip = 0;
  config_.warmup = 2;
  config_.checkpoint_every = 1;
  std::string message;
  try {
    train(config_, {run("a")});
  } catch (const UserError& error) {
    FAIL() << "not the user's mistake: " << error.what();
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_TRUE(contains(message, "diverged at step")) << message;
  EXPECT_FALSE(fs::exists(run("a") / "model.safetensors"));
  const auto newest = CheckpointFolder(run("a")).newest();
  if (!newest) {
    EXPECT_TRUE(contains(message, "none")) << message;
    return;
  }
  EXPECT_TRUE(contains(message, newest->string())) << message;
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    for (const auto& [name, tensor] : read_safetensors(*newest / file).tensors) {
      EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << file << " " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LearningRates, Diverging, testing::Values(1e20, 1e38),
                         [](const auto& test) { return test.param < 1e30 ? "loss" : "weights"; });

// Interrupts cannot be taken back, so that they happen in processes of their own: death tests that
// run this test again up to the statement. Those find the first process's folder by a variable.
constexpr const char* kSharedFolder = "SLIFT_TRAINER_TEST_FOLDER";

std::optional<fs::path> shared_folder() {
  const char* given = std::getenv(kSharedFolder);
  return given != nullptr ? std::optional<fs::path>(given) : std::nullopt;
}

class Interrupting : public TrainerTest {
 protected:
  Interrupting() : TrainerTest(shared_folder()) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv(kSharedFolder, folder_.c_str(), 1);
  }
  ~Interrupting() override { unsetenv(kSharedFolder); }

  // Trains until the first safe point after a signal, and leaves with 42 if that is an Interrupted.
  [[noreturn]] void train_interrupted() {
    install_interrupt_handlers();
    std::raise(SIGINT);
    int status = 1;
    try {
      train(config_, {run("stopped"), /*resume=*/true});
    } catch (const Interrupted&) {
      status = 42;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::_Exit(status);
  }
};

using InterruptingDeathTest = Interrupting;

TEST_F(InterruptingDeathTest, LeavesACheckpointThatResumesToTheSameBytes) {
  config_.log_every = 2;
  config_.iterations = 7;
  // Each process makes one step more. The third writes no line of its own to the log.
  EXPECT_EXIT(train_interrupted(), testing::ExitedWithCode(42), "");
  EXPECT_EXIT(train_interrupted(), testing::ExitedWithCode(42), "");
  EXPECT_EXIT(train_interrupted(), testing::ExitedWithCode(42), "");
  EXPECT_EQ(CheckpointFolder(run("stopped")).newest()->filename(), "step-00000003");
  EXPECT_FALSE(fs::exists(run("stopped") / "model.safetensors"));
  train(config_, {run("stopped"), /*resume=*/true});
  train(config_, {run("whole")});
  EXPECT_TRUE(model_bytes(run("stopped")) == model_bytes(run("whole")));
  EXPECT_EQ(metrics(run("stopped")), metrics(run("whole")));
}

}  // namespace
}  // namespace slift
