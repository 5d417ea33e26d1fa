#include "methods/lifting.h"

#include <cmath>

#include "core/errors.h"

namespace slift {

Lifting::Lifting(const LiftingConfig& config, std::vector<std::int64_t> state, std::int64_t window)
    : shape_{std::move(state), window, config.dimension},
      kind_(parse_label_kind(config.kind)),
      persistent_(config.persistent),
      jitter_(config.jitter) {
  require(persistent_ <= config.dimension,
          "lifting.persistent = {} must be at most lifting.dimension = {}", persistent_,
          config.dimension);
  require(persistent_ == 0 || kind_ == kernels::LabelKind::kGaussian,
          "lifting.persistent needs lifting.kind = gaussian");
  require(jitter_ == 0 || kind_ == kernels::LabelKind::kGaussian,
          "lifting.jitter needs lifting.kind = gaussian");
}

Tensor Lifting::training_labels(const TrainingBatch& batch) const {
  const Tensor label = labels(batch.seed).for_transitions(batch.transition, batch.per_trajectory);
  return jitter_ > 0 ? label / std::sqrt(1 + jitter_ * jitter_) : label;
}

Tensor Lifting::loss(const Backbone* network, const TrainingBatch& batch,
                     const Loss& distance) const {
  Tensor label = training_labels(batch);
  if (jitter_ > 0) {
    label =
        label + jitter_ / std::sqrt(1 + jitter_ * jitter_) * batch.normals(shape_.label_dimension);
  }
  return distance(network->forward(batch.window, label), batch.target);
}

Tensor Lifting::recall(const Backbone* network, const TrainingBatch& batch) const {
  return network->forward(batch.window, training_labels(batch));
}

void Lifting::draw(std::uint64_t seed, const Tensor& member, const Tensor& step,
                   const Tensor& out) const {
  labels(seed).draw_for_members(member, step, out);
}

Tensor Lifting::sample(const Backbone* network, const Tensor& window, const Tensor& numbers) const {
  return network->forward(window, numbers);
}

void Lifting::advance(const Backbone* network, const Tensor& window, const Tensor& numbers,
                      const Scales& scales) const {
  network->advance(window, numbers, scales);
}

}  // namespace slift
