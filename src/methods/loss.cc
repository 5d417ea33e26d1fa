#include "methods/loss.h"

#include "core/config.h"
#include "core/errors.h"

namespace slift {

const std::vector<LossEntry>& loss_registry() {
  static const std::vector<LossEntry> entries = {
      {"l2", "squared error", [](const Tensor& o, const Tensor& t) { return at::mse_loss(o, t); }},
      {"l1", "absolute error", [](const Tensor& o, const Tensor& t) { return at::l1_loss(o, t); }},
      {"huber", "squared below 1, then linear",
       [](const Tensor& o, const Tensor& t) { return at::huber_loss(o, t); }},
  };
  return entries;
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const LossEntry& entry : loss_registry()) names.push_back(entry.name);
  return names;
}

Loss make_loss(const std::string& name) {
  for (const LossEntry& entry : loss_registry()) {
    if (entry.name == name) return entry.loss;
  }
  fail("unknown loss {}; the nearest is {}", name, nearest_name(name, loss_names()));
}

}  // namespace slift
