// A learned one-step map: (the last m states, label) -> the next state, in the data's own units.
//
// Wraps a backbone with the data's scales. All inputs are (x - mean) / std. Output `residual`:
// x_t + delta_std * net; `direct`: mean + std * net.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/normaliser.h"
#include "lifting/labels.h"
#include "nets/backbone.h"

namespace slift {

// Everything but the weights; stored as JSON in the model file.
struct ModelSpec {
  NetConfig net;
  std::vector<std::int64_t> state_shape;
  std::int64_t label_dimension = 0;
  std::string label_kind = "gaussian";
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

  // window [B, m, state...] oldest first, label [B, d] -> next state [B, state...].
  Tensor forward(const Tensor& window, const Tensor& label) const;
  // Drops the oldest state of `window` (row-major) and appends the next one, the bits of forward():
  // in place, without gradients.
  void advance(const Tensor& window, const Tensor& label) const;
  // The backbone's output and what it should be, both in the units of the loss.
  Tensor scaled_output(const Tensor& window, const Tensor& label) const;
  Tensor scaled_target(const Tensor& window, const Tensor& next) const;

  void to(const at::Device& device);
  // Of the network's arithmetic: "fp32", or on a GPU "tf32", "bf16" or "fp8"; states and weights
  // remain float32. UserError if the network or the model's device cannot do it, which is what
  // check_precision() says before anything is done. "fp8" needs a calibrated backbone, is for use
  // without gradients, and is bf16 for all else. TF32 is a switch of the whole process.
  void check_precision(const std::string& precision) const;
  void set_precision(const std::string& precision);
  const std::string& precision() const { return precision_; }
  at::Device device() const { return scales_.mean.device(); }
  const ModelSpec& spec() const { return spec_; }
  const Backbone& backbone() const { return *backbone_; }
  Backbone& backbone() { return *backbone_; }
  std::int64_t parameter_count() const;

 private:
  // What the scaled output is added to.
  Tensor base(const Tensor& window) const;

  ModelSpec spec_;
  std::string precision_ = "fp32";
  std::shared_ptr<Backbone> backbone_;
  Scales scales_;
};

// A model file: safetensors with the spec as JSON in its metadata (docs/formats.md).
// The weights are the average that training keeps, if there is one.
void save_model(const std::filesystem::path& path, const TransitionModel& model);
ModelSpec read_model_spec(const std::filesystem::path& path);
TransitionModel load_model(const std::filesystem::path& path);

}  // namespace slift
