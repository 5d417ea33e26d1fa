// The network inside a transition model: (scaled window, label) -> scaled output.
//
// Training and rollout see this interface only; nets join through the registry (docs/adding.md).
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "nets/config.h"
#include "nets/weights.h"
#include "tensor/torch_compat.h"

namespace slift {

struct BackboneShape {
  std::vector<std::int64_t> state;   // {n} or {C, H, W}
  std::int64_t window = 1;           // states that come in
  std::int64_t label_dimension = 0;  // components of the label, or of what else is embedded
  std::int64_t outputs = 1;          // states that come out
};

// Of the data, float32, [channels, 1...] each: they broadcast over a state. The network sees
// (x - mean) / std, and the next state is offset + scale net, or where there is no offset the last
// state + scale net.
struct Scales {
  Tensor mean, std;
  Tensor offset;  // or undefined
  Tensor scale;
};

// A new backbone's weights have no meaning until initialise() or a model file sets them.
class Backbone : public torch::nn::Module {
 public:
  explicit Backbone(BackboneShape shape) : shape_(std::move(shape)) {}

  // window [B, m, state...], label [B, d] -> [B, outputs n] or [B, outputs C, H, W], one state
  // after the other; float32 on one device.
  Tensor forward(const Tensor& window, const Tensor& label) const;
  // Moves `window` [B, m, state...], float32 and row-major, in the data's units, on by one state:
  // in place, without gradients. The new state has the bits that forward() between the scales
  // gives. For a net of one output.
  void advance(const Tensor& window, const Tensor& label, const Scales& scales) const;
  const BackboneShape& shape() const { return shape_; }

  // The type of activations, and of weights where they meet them: forward_impl() gets its inputs in
  // it. Weights are stored in float32 whatever it is. Until set, it is the type of the inputs.
  void set_compute_type(at::ScalarType type);
  at::ScalarType compute_type() const { return compute_type_.value_or(at::kFloat); }

  // The parameters in all forms. The non-const one sees to it that all of parameters() are masters;
  // make_backbone() has called it.
  Weights& weights();
  const Weights& weights() const { return weights_; }
  // Brings all forms of the weights up to date. forward() and advance() do it themselves; whoever
  // replays a recording of them calls it before.
  void sync() const { weights_.sync(); }

  // Fp8: the convolutions that take most of the time have inputs and weights in e4m3 (ops.h), for
  // use without gradients; all else stays in the compute type.
  //
  // UserError if it is not for this net.
  virtual void require_fp8() const;
  // Calls `evaluate`, in which the net is used as it will be later on, and keeps how large
  // numbers get. Leaves fp8 off. After other weights, or if `evaluate` throws, it is to be called
  // again.
  virtual void calibrate(const std::function<void()>& evaluate);
  // UserError if the net was not calibrated.
  virtual void use_fp8(bool wanted);

  // Draws all weights anew, as a function of `seed` alone.
  virtual void initialise(std::uint64_t seed) = 0;

 private:
  virtual Tensor forward_impl(const Tensor& window, const Tensor& label) const = 0;
  // The default is forward() between the scales; other ways are for nets that can fuse them.
  virtual void advance_impl(const Tensor& window, const Tensor& label, const Scales& scales) const;
  void check_shapes(const Tensor& window, const Tensor& label) const;
  BackboneShape shape_;
  std::optional<at::ScalarType> compute_type_;
  mutable Weights weights_;  // what sync() changes follows from the masters
};

struct BackboneEntry {
  std::string name, summary;
  std::vector<std::string> keys;  // of [net], those that only this family has
  std::function<std::shared_ptr<Backbone>(const NetConfig&, const BackboneShape&)> make;
  // A small net for the tests: settings as key=value, and states it takes.
  std::vector<std::string> quick;
  std::vector<std::int64_t> quick_state;
};

// All families; drives `net.kind` and the tests.
const std::vector<BackboneEntry>& backbone_registry();

// Throws UserError if the net does not go with the states (an MLP with fields), or if a key of
// another family was changed: it would do nothing.
std::shared_ptr<Backbone> make_backbone(const NetConfig& config, const BackboneShape& shape);

// "gelu" (tanh form) or "silu".
kernels::Activation parse_activation(const std::string& name);
// Elementwise.
Tensor activate(const Tensor& x, const std::string& activation);
// sqrt(1 / E[f(z)^2]) for standard normal z: weights of this gain keep activations at unit scale.
double activation_gain(const std::string& activation);

// Fills `weight` [out, in, ...] with N(0, gain^2 / fan_in), parameter `index` of the net.
void draw_weight(Tensor weight, double gain, std::uint64_t seed, std::uint64_t index);

}  // namespace slift
