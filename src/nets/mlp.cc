#include "nets/mlp.h"

#include <torch/autograd.h>

#include "core/errors.h"

namespace slift {

Mlp::Mlp(const NetConfig& config, const BackboneShape& shape)
    : Backbone(shape),
      activation_(config.activation),
      gain_(config.init_gain * activation_gain(config.activation)) {
  require(shape.state.size() == 1, "net.kind = mlp goes with vector states, the data have fields");
  std::int64_t inputs = shape.window * shape.state[0] + shape.label_dimension;
  for (std::int64_t i = 0; i <= config.layers; ++i) {
    const std::int64_t outputs = i < config.layers ? config.width : shape.outputs * shape.state[0];
    weights_.push_back(
        register_parameter("weight" + std::to_string(i), at::zeros({outputs, inputs})));
    biases_.push_back(register_parameter("bias" + std::to_string(i), at::zeros({outputs})));
    inputs = outputs;
  }
}

void Mlp::initialise(std::uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    // A small last layer starts the model near "next state = last state" (or the mean).
    const bool last = i + 1 == weights_.size();
    draw_weight(weights_[i], last ? 0.1 * gain_ : gain_, seed, i);
    biases_[i].zero_();
  }
}

Tensor Mlp::forward_impl(const Tensor& window, const Tensor& label) const {
  Tensor x = at::cat({window.flatten(1), label}, 1);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::ScalarType type = x.scalar_type();
    x = at::addmm(biases_[i].to(type), x, weights_[i].to(type).t());
    if (i + 1 < weights_.size()) x = activate(x, activation_);
  }
  return x;
}

}  // namespace slift
