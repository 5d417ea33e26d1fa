// A method of docs/adding.md: the next state is normal, given the window, with a mean and a
// deviation from the network (Nix and Weigend, 1994).
#pragma once

#include "methods/method.h"

namespace slift {

class Gaussian : public Method {
 public:
  Gaussian(std::vector<std::int64_t> state, std::int64_t window)
      : shape_{std::move(state), window, /*label_dimension=*/0, /*outputs=*/2} {}

  std::optional<BackboneShape> backbone_shape() const override { return shape_; }

  // Minus the log likelihood. It has a distance of its own and does not need train.loss.
  Tensor loss(const Backbone* network, const TrainingBatch& batch, const Loss&) const override {
    const auto [mean, log_deviation] = moments(network, batch.window);
    const Tensor error = (batch.target - mean) * (-log_deviation).exp();
    return (0.5 * error.square() + log_deviation).mean();
  }

  std::int64_t evaluations() const override { return 1; }
  std::int64_t numbers() const override { return at::zeros(shape_.state).numel(); }

  Tensor sample(const Backbone* network, const Tensor& window,
                const Tensor& numbers) const override {
    const auto [mean, log_deviation] = moments(network, window);
    return mean + log_deviation.exp() * numbers.view_as(mean);
  }

 private:
  // Two outputs of the network, one after the other: [B, 2 n] or [B, 2 C, H, W].
  std::pair<Tensor, Tensor> moments(const Backbone* network, const Tensor& window) const {
    const Tensor nothing = at::zeros({window.size(0), 0}, window.options());
    const std::vector<Tensor> both = network->forward(window, nothing).chunk(2, 1);
    return {both[0], both[1].clamp(-7, 3)};
  }

  BackboneShape shape_;
};

}  // namespace slift
