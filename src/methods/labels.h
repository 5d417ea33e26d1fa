// The labels of Stochastic Lifting: one fixed random vector per training transition, a fresh one
// per (member, step) of a rollout. They are functions of their address and never stored.
//
// The first `persistent` components may belong to the trajectory instead: all its transitions share
// them, and a member keeps its own through a rollout. That is our variant, for systems whose
// randomness is frozen, as in the medium of a wave; the paper's labels have none.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernels.h"
#include "tensor/torch_compat.h"

namespace slift {

struct LabelSource {
  std::uint64_t seed = 0;
  std::int64_t dimension = 0;  // 0: no labels, the deterministic baseline
  kernels::LabelKind kind = kernels::LabelKind::kGaussian;
  std::int64_t persistent = 0;  // of the components; more than 0 for Gaussian labels only

  // transition [B] int64 -> [B, dimension] float32 on its device. A trajectory has
  // `per_trajectory` transitions, one after the other.
  Tensor for_transitions(const Tensor& transition, std::int64_t per_trajectory = 1) const;
  // member [B] int64 -> [B, dimension] float32 on its device. `step`, one int64 there, counts from
  // 0; it is read on the device, when the labels are drawn.
  Tensor for_members(const Tensor& member, const Tensor& step) const;
  // The same into `label` [B, dimension], float32 and row-major, there.
  void draw_for_members(const Tensor& member, const Tensor& step, const Tensor& label) const;
};

// "gaussian" or "sphere".
kernels::LabelKind parse_label_kind(const std::string& name);

}  // namespace slift
