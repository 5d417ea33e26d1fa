#include "training/checkpoint.h"

#include <gtest/gtest.h>

#include <set>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/testing.h"
#include "methods/transition_model.h"
#include "tensor/safetensors.h"

namespace slift {
namespace {

namespace fs = std::filesystem;

TransitionModel make_model() {
  ModelSpec spec;
  spec.net.width = 4;
  spec.net.layers = 1;
  spec.state_shape = {1};
  spec.normaliser = {{0.0f}, {1.0f}, {1.0f}};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  return model;
}

class Checkpoints : public testing::Test {
 protected:
  void save(std::int64_t step) {
    const torch::NoGradGuard no_grad;
    Weights& weights = model_.backbone().weights();
    for (std::size_t i = 0; i < weights.masters().size(); ++i) {
      Tensor average = weights.keep_average()[i];
      average.copy_(weights.masters()[i]).add_(static_cast<double>(step));
    }
    CheckpointFolder(run_).save(
        step, model_, {{{"a", at::full({2}, static_cast<double>(step))}}, {{"iteration", step}}});
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

  TestFolder folder_;
  fs::path run_ = folder_ / "run";
  TransitionModel model_ = make_model();
};

TEST_F(Checkpoints, HoldModelAndState) {
  EXPECT_FALSE(CheckpointFolder(run_).newest().has_value());
  save(7);
  const auto newest = CheckpointFolder(run_).newest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(*newest, run_ / "checkpoints" / "step-00000007");
  const TrainingState state = CheckpointFolder::load(*newest);
  EXPECT_TRUE(at::equal(state.tensors.at("a"), at::full({2}, 7.0)));
  EXPECT_EQ(state.counters.at("iteration"), 7);
  const TransitionModel back = load_model(*newest / "model.safetensors");
  EXPECT_TRUE(
      at::equal(back.backbone().parameters()[0], model_.backbone().parameters()[0].detach() + 7));
}

TEST_F(Checkpoints, TheNewestTwoAreKept) {
  for (const std::int64_t step : {1, 9, 10, 100}) save(step);
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000010", "step-00000100"}));
  EXPECT_EQ(CheckpointFolder(run_).newest()->filename(), "step-00000100");
}

TEST_F(Checkpoints, WhatAKillLeftOfARemovalIsRemoved) {
  save(1);
  save(2);
  // Cut short after one file: the name is not that of a checkpoint any more.
  fs::create_directories(run_ / "checkpoints" / "step-00000001.partial");
  write_file_atomically(run_ / "checkpoints" / "step-00000001.partial" / "rest", "x");
  save(3);
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000002", "step-00000003"}));
}

TEST_F(Checkpoints, UnfinishedOnesAreNeverNewestAndStayUntilTheTrainerRemovesThem) {
  save(1);
  const fs::path partial = run_ / "checkpoints" / "step-00000002.partial";
  fs::create_directories(partial);
  write_file_atomically(partial / "model.safetensors", "half");
  CheckpointFolder folder(run_);
  EXPECT_EQ(folder.newest()->filename(), "step-00000001");
  EXPECT_TRUE(fs::exists(partial / "model.safetensors"));
  folder.remove_unfinished();
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_EQ(folder.newest()->filename(), "step-00000001");
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000001"}));
}

TEST_F(Checkpoints, ClearingLeavesNone) {
  CheckpointFolder folder(run_);
  EXPECT_NO_THROW(folder.clear());
  save(1);
  fs::create_directories(run_ / "checkpoints.partial" / "step-00000000");  // of a killed clear()
  folder.clear();
  EXPECT_FALSE(folder.newest().has_value());
  EXPECT_TRUE(fs::is_empty(run_));
  save(2);
  EXPECT_EQ(folder.newest()->filename(), "step-00000002");
}

TEST_F(Checkpoints, AFailedSaveLeavesNothingNew) {
  save(1);
  // float16 has no place in the state file: writing it fails after the model has been written.
  EXPECT_ANY_THROW(CheckpointFolder(run_).save(
      2, model_, {{{"a", at::zeros({2}, at::kHalf)}}, nlohmann::json::object()}));
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000001"}));
}

TEST_F(Checkpoints, BrokenOnesNameTheFile) {
  save(1);
  const fs::path checkpoint = run_ / "checkpoints" / "step-00000001";
  const fs::path file = checkpoint / "state.safetensors";
  const auto refused = [&] {
    try {
      CheckpointFolder::load(checkpoint);
      return false;
    } catch (const UserError& error) {
      return std::string(error.what()).find(file.string()) != std::string::npos;
    }
  };
  EXPECT_FALSE(refused());
  write_safetensors(file, {{{"a", at::zeros({2})}}, {}});
  EXPECT_TRUE(refused());
  write_safetensors(file, {{{"a", at::zeros({2})}}, {{"counters", "{"}}});
  EXPECT_TRUE(refused());
  write_file_atomically(file, "short");
  EXPECT_TRUE(refused());
  fs::remove(file);
  EXPECT_TRUE(refused());
}

}  // namespace
}  // namespace slift
