#include "methods/labels.h"

#include "core/errors.h"
#include "kernels/ops.h"

namespace slift {

Tensor LabelSource::for_transitions(const Tensor& transition, std::int64_t per_trajectory) const {
  const Tensor own =
      ops::draw_labels(seed, Purpose::kTrainingLabel, transition, {}, dimension - persistent, kind);
  if (persistent == 0) return own;
  const Tensor trajectory = at::div(transition, per_trajectory, "floor");
  return at::cat(
      {ops::draw_labels(seed, Purpose::kTrajectoryLabel, trajectory, {}, persistent, kind), own},
      1);
}

Tensor LabelSource::for_members(const Tensor& member, const Tensor& step) const {
  const Tensor label = at::empty({member.size(0), dimension}, member.options().dtype(at::kFloat));
  draw_for_members(member, step, label);
  return label;
}

void LabelSource::draw_for_members(const Tensor& member, const Tensor& step,
                                   const Tensor& label) const {
  if (persistent == 0) {
    return ops::draw_labels(seed, Purpose::kRolloutLabel, member, step, kind, label);
  }
  const std::int64_t fresh = dimension - persistent;
  label.narrow(1, 0, persistent)
      .copy_(ops::draw_labels(seed, Purpose::kMemberLabel, member, {}, persistent, kind));
  label.narrow(1, persistent, fresh)
      .copy_(ops::draw_labels(seed, Purpose::kRolloutLabel, member, step, fresh, kind));
}

kernels::LabelKind parse_label_kind(const std::string& name) {
  if (name == "gaussian") return kernels::LabelKind::kGaussian;
  require(name == "sphere", "lifting.kind must be gaussian or sphere, got {}", name);
  return kernels::LabelKind::kSphere;
}

}  // namespace slift
