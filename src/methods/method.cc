#include "methods/method.h"

#include <stdexcept>

#include "core/errors.h"
#include "kernels/ops.h"
#include "methods/lifting.h"

namespace slift {

Tensor TrainingBatch::normals(std::int64_t n) const {
  return ops::draw_labels(seed, Purpose::kTrainingNoise, transition, iteration, n,
                          kernels::LabelKind::kGaussian);
}

Tensor Method::recall(const Backbone*, const TrainingBatch&) const { return {}; }

void Method::draw(std::uint64_t seed, const Tensor& member, const Tensor& step,
                  const Tensor& out) const {
  ops::draw_labels(seed, Purpose::kRolloutLabel, member, step, kernels::LabelKind::kGaussian, out);
}

void Method::advance(const Backbone* network, const Tensor& window, const Tensor& numbers,
                     const Scales& scales) const {
  const Tensor next = sample(network, (window - scales.mean) / scales.std, numbers);
  ops::push_state(window, next, scales.offset, scales.scale);
}

void Method::fit(const Transitions&) {}

namespace {

std::vector<MethodEntry>& entries() {
  static std::vector<MethodEntry> all = {
      {"lifting",
       "Stochastic Lifting: a fixed random label per transition, fresh ones in a rollout",
       [](const MethodConfig& config, const auto& state, std::int64_t window) {
         return std::make_unique<Lifting>(config.lifting, state, window);
       }},
      {"deterministic", "the mean of the next state: lifting without labels",
       [](const MethodConfig&, const auto& state, std::int64_t window) {
         return std::make_unique<Lifting>(LiftingConfig{.dimension = 0}, state, window);
       }},
  };
  return all;
}

}  // namespace

const std::vector<MethodEntry>& method_registry() { return entries(); }

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const MethodEntry& entry : method_registry()) names.push_back(entry.name);
  return names;
}

void register_method(MethodEntry entry) {
  for (const std::string& name : method_names()) {
    if (name == entry.name) {
      throw std::logic_error(fmt::format("there is a method {} already", name));
    }
  }
  entries().push_back(std::move(entry));
}

std::unique_ptr<Method> make_method(const MethodConfig& config,
                                    const std::vector<std::int64_t>& state, std::int64_t window) {
  for (const MethodEntry& entry : method_registry()) {
    if (entry.name == config.kind) return entry.make(config, state, window);
  }
  fail("method.kind: unknown method {}; the nearest is {}", config.kind,
       nearest_name(config.kind, method_names()));
}

}  // namespace slift
