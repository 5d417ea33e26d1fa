// A method without a network: every step adds a normal vector with the data's mean and deviation of
// each value.
#pragma once

#include "methods/method.h"

namespace slift {

class RandomWalk : public Method {
 public:
  explicit RandomWalk(const std::vector<std::int64_t>& state)
      : mean_(at::zeros(state)), deviation_(at::ones(state)) {}

  std::optional<BackboneShape> backbone_shape() const override { return std::nullopt; }

  Tensor loss(const Backbone*, const TrainingBatch& batch, const Loss& distance) const override {
    return distance(mean_.expand_as(batch.target), batch.target);
  }

  std::int64_t evaluations() const override { return 0; }
  std::int64_t numbers() const override { return mean_.numel(); }

  Tensor sample(const Backbone*, const Tensor& window, const Tensor& numbers) const override {
    std::vector<std::int64_t> shape = mean_.sizes().vec();
    shape.insert(shape.begin(), window.size(0));
    return mean_ + deviation_ * numbers.view(shape);
  }

  std::vector<std::pair<std::string, Tensor*>> tensors() override {
    return {{"mean", &mean_}, {"deviation", &deviation_}};
  }

  void fit(const Transitions& for_each) override {
    Tensor sum = at::zeros(mean_.sizes(), at::kDouble), squares = sum.clone();
    std::int64_t count = 0;
    for_each([&](const Tensor&, const Tensor& target) {
      sum += target.sum(0, false, at::kDouble);
      squares += target.to(at::kDouble).square().sum(0);
      count += target.size(0);
    });
    const Tensor mean = sum / count;
    deviation_ = (squares / count - mean.square()).clamp_min(0).sqrt().to(at::kFloat);
    mean_ = mean.to(at::kFloat);
  }

 private:
  Tensor mean_, deviation_;  // of the target, [state...]
};

}  // namespace slift
