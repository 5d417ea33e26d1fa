// Stochastic Lifting (Berman, Blickhan and Peherstorfer, ICML 2026): the network regresses each
// training transition with a random label of its own, which makes interpolation possible; with a
// fresh label it samples a transition. One evaluation a step. Of dimension 0 it is the
// deterministic baseline, which learns the mean.
#pragma once

#include "methods/labels.h"
#include "methods/method.h"

namespace slift {

class Lifting : public Method {
 public:
  // Throws UserError if more components persist than there are.
  Lifting(const LiftingConfig& config, std::vector<std::int64_t> state, std::int64_t window);

  std::optional<BackboneShape> backbone_shape() const override { return shape_; }
  Tensor loss(const Backbone* network, const TrainingBatch& batch,
              const Loss& distance) const override;
  Tensor recall(const Backbone* network, const TrainingBatch& batch) const override;
  std::int64_t evaluations() const override { return 1; }
  std::int64_t numbers() const override { return shape_.label_dimension; }
  void draw(std::uint64_t seed, const Tensor& member, const Tensor& step,
            const Tensor& out) const override;
  Tensor sample(const Backbone* network, const Tensor& window,
                const Tensor& numbers) const override;
  void advance(const Backbone* network, const Tensor& window, const Tensor& numbers,
               const Scales& scales) const override;

 private:
  LabelSource labels(std::uint64_t seed) const {
    return {seed, shape_.label_dimension, kind_, persistent_};
  }
  // The labels of transitions; with jitter the middles of what their visits see, which is standard
  // normal as a whole, as labels of a rollout are.
  Tensor training_labels(const TrainingBatch& batch) const;

  BackboneShape shape_;
  kernels::LabelKind kind_;
  std::int64_t persistent_;
  double jitter_;
};

}  // namespace slift
