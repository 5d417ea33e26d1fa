// Regression losses: how far a predicted state is from the true one, in the units of the loss
// (scaled states or differences). A loss is one entry of the registry.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// output, target [B, state...] -> scalar, the mean over everything.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

struct LossEntry {
  std::string name, summary;
  Loss loss;
};

const std::vector<LossEntry>& loss_registry();
std::vector<std::string> loss_names();

// Throws UserError naming the nearest loss if `name` is unknown.
Loss make_loss(const std::string& name);

}  // namespace slift
