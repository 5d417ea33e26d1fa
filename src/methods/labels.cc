#include "methods/labels.h"

#include "core/errors.h"
#include "kernels/ops.h"

namespace slift {

Tensor LabelSource::for_transitions(const Tensor& transition) const {
  return ops::draw_labels(seed, Purpose::kTrainingLabel, transition, {}, dimension, kind);
}

Tensor LabelSource::for_members(const Tensor& member, const Tensor& step) const {
  return ops::draw_labels(seed, Purpose::kRolloutLabel, member, step, dimension, kind);
}

void LabelSource::draw_for_members(const Tensor& member, const Tensor& step,
                                   const Tensor& label) const {
  ops::draw_labels(seed, Purpose::kRolloutLabel, member, step, kind, label);
}

kernels::LabelKind parse_label_kind(const std::string& name) {
  if (name == "gaussian") return kernels::LabelKind::kGaussian;
  require(name == "sphere", "lifting.kind must be gaussian or sphere, got {}", name);
  return kernels::LabelKind::kSphere;
}

}  // namespace slift
