// A learned one-step map: (the last m states, random numbers) -> the next state, in the data's own
// units.
//
// A method and its network between the data's scales. All inputs are (x - mean) / std. Output
// `residual`: x_t + delta_std * y; `direct`: mean + std * y, with y what the method samples.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/normaliser.h"
#include "methods/method.h"
#include "nets/backbone.h"

namespace slift {

// Everything but the weights; stored as JSON in the model file.
struct ModelSpec {
  NetConfig net;
  std::vector<std::int64_t> state_shape;
  MethodConfig method;
  Normaliser normaliser;
  std::string system, boundary;
  double dt = 1;
  std::vector<std::string> fields;
  nlohmann::json data;    // identity of the training data: path, shape, seed, members used
  nlohmann::json config;  // the resolved training config

  nlohmann::json to_json() const;
  static ModelSpec from_json(const nlohmann::json& object, const std::string& source);
};

class TransitionModel {
 public:
  explicit TransitionModel(ModelSpec spec);

  // window [B, m, state...] oldest first, numbers [B, method().numbers()] -> next state
  // [B, state...].
  Tensor forward(const Tensor& window, const Tensor& numbers) const;
  // Drops the oldest state of `window` (row-major) and appends the next one, the bits of forward():
  // in place, without gradients.
  void advance(const Tensor& window, const Tensor& numbers) const;
  // Transitions in the units of the loss: window [B, m, state...], next [B, state...], transition
  // [B] int64; iteration [1] int64 counts for methods that draw anew in each.
  TrainingBatch training_batch(const Tensor& window, const Tensor& next, const Tensor& transition,
                               const Tensor& iteration, std::uint64_t seed) const;
  // Transitions that a trajectory of the training data has.
  std::int64_t per_trajectory() const;
  // Sets the method's own tensors from the first `members` trajectories; before to().
  void fit(const TrajectoryReader& reader, std::int64_t members);

  void to(const at::Device& device);
  // Of the network's arithmetic: "fp32", or on a GPU "tf32", "bf16" or "fp8"; states and weights
  // remain float32. UserError if the network or the model's device cannot do it, which is what
  // check_precision() says before anything is done. "fp8" needs a calibrated backbone, is for use
  // without gradients, and is bf16 for all else. TF32 is a switch of the whole process.
  void check_precision(const std::string& precision) const;
  void set_precision(const std::string& precision);
  const std::string& precision() const { return precision_; }
  at::Device device() const { return scales_.mean.device(); }
  const Scales& scales() const { return scales_; }
  const ModelSpec& spec() const { return spec_; }
  const Method& method() const { return *method_; }
  // Null if the method needs no network; so may backbone() not be asked for then.
  const Backbone* network() const { return backbone_.get(); }
  const Backbone& backbone() const { return *backbone_; }
  Backbone& backbone() { return *backbone_; }
  // Brings all forms of the weights up to date, for whoever replays a recorded step.
  void sync() const;
  std::int64_t parameter_count() const;
  // What a model file holds, by name: the parameters, or their average if training keeps one, and
  // the method's own.
  std::vector<std::pair<std::string, Tensor>> tensors() const;

 private:
  // What the scaled output is added to.
  Tensor base(const Tensor& window) const;

  ModelSpec spec_;
  std::string precision_ = "fp32";
  std::shared_ptr<Method> method_;
  std::shared_ptr<Backbone> backbone_;  // null if the method needs none
  Scales scales_;
};

// A model file: safetensors with the spec as JSON in its metadata (docs/formats.md).
void save_model(const std::filesystem::path& path, const TransitionModel& model);
ModelSpec read_model_spec(const std::filesystem::path& path);
TransitionModel load_model(const std::filesystem::path& path);

}  // namespace slift
