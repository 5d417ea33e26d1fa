#include "methods/lifting.h"

namespace slift {

Lifting::Lifting(const LiftingConfig& config, std::vector<std::int64_t> state, std::int64_t window)
    : shape_{std::move(state), window, config.dimension}, kind_(parse_label_kind(config.kind)) {}

Tensor Lifting::loss(const Backbone* network, const TrainingBatch& batch,
                     const Loss& distance) const {
  return distance(recall(network, batch), batch.target);
}

Tensor Lifting::recall(const Backbone* network, const TrainingBatch& batch) const {
  return network->forward(batch.window, labels(batch.seed).for_transitions(batch.transition));
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
