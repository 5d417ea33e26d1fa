// A method with several evaluations a step: a straight flow from noise to the next state (Lipman et
// al. 2023), in three Euler steps. The network sees the window and a state on the way, and the time
// on the way is embedded.
#pragma once

#include "methods/method.h"

namespace slift {

class StraightFlow : public Method {
 public:
  StraightFlow(std::vector<std::int64_t> state, std::int64_t window)
      : shape_{std::move(state), window + 1, /*label_dimension=*/2, /*outputs=*/1} {}

  std::optional<BackboneShape> backbone_shape() const override { return shape_; }

  Tensor loss(const Backbone* network, const TrainingBatch& batch,
              const Loss& distance) const override {
    const std::int64_t size = numbers();
    const Tensor drawn = batch.normals(size + 1);
    const Tensor noise = drawn.narrow(1, 0, size).reshape_as(batch.target);
    // Uniform on (0, 1): the distribution function of a normal.
    const Tensor time = 0.5 * (1 + (drawn.select(1, size) / std::sqrt(2.0)).erf());
    const Tensor share = time.view(column(batch.target));
    const Tensor between = (1 - share) * noise + share * batch.target;
    return distance(velocity(network, batch.window, between, time), batch.target - noise);
  }

  std::int64_t evaluations() const override { return 3; }
  std::int64_t numbers() const override { return at::zeros(shape_.state).numel(); }

  Tensor sample(const Backbone* network, const Tensor& window,
                const Tensor& numbers) const override {
    std::vector<std::int64_t> shape = {window.size(0)};
    shape.insert(shape.end(), shape_.state.begin(), shape_.state.end());
    Tensor x = numbers.view(shape);
    for (std::int64_t i = 0; i < evaluations(); ++i) {
      const double h = 1.0 / static_cast<double>(evaluations());
      const Tensor time = at::full({x.size(0)}, static_cast<double>(i) * h, x.options());
      x = x + h * velocity(network, window, x, time);
    }
    return x;
  }

 private:
  static std::vector<std::int64_t> column(const Tensor& states) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(states.dim()), 1);
    shape[0] = states.size(0);
    return shape;
  }
  Tensor velocity(const Backbone* network, const Tensor& window, const Tensor& x,
                  const Tensor& time) const {
    const Tensor features = at::stack({(3 * time).sin(), (3 * time).cos()}, 1);
    return network->forward(at::cat({window, x.unsqueeze(1)}, 1), features);
  }

  BackboneShape shape_;
};

}  // namespace slift
