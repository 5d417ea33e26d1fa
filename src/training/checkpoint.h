// Checkpoints: folders `checkpoints/step-NNNNNNNN` that appear whole or not at all.
//
// Each holds model.safetensors (the EMA weights, ready for rollout) and state.safetensors (weights,
// optimiser, EMA, and a small JSON of counters). The newest two are kept.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensor/torch_compat.h"

namespace slift {

class TransitionModel;

struct TrainingState {
  std::map<std::string, Tensor> tensors;
  nlohmann::json counters;
};

class CheckpointFolder {
 public:
  // `run` is the run folder; nothing in it is changed, so that others may look while it trains.
  explicit CheckpointFolder(const std::filesystem::path& run);

  // Removes what a killed process left half written or half removed. For the process that trains in
  // the folder, and only it: to others what is unfinished may be in the making.
  void remove_unfinished();
  // Removes all checkpoints, at once as far as anybody can see.
  void clear();

  void save(std::int64_t step, const TransitionModel& model, const TrainingState& state);
  // Path of the newest checkpoint, if any.
  std::optional<std::filesystem::path> newest() const;
  static TrainingState load(const std::filesystem::path& checkpoint);

 private:
  std::filesystem::path folder_;
};

}  // namespace slift
