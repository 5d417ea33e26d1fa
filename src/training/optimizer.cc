#include "training/optimizer.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/errors.h"
#include "tensor/upload.h"

namespace slift {

double schedule(std::int64_t step, std::int64_t warmup, double phase) {
  const double rise =
      warmup > 0 ? std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(warmup)) : 1.0;
  return rise * 0.5 * (1 + std::cos(std::numbers::pi * std::min(phase, 1.0)));
}

Optimizer::Optimizer(Weights& weights, const TrainConfig& config)
    : weights_(weights), config_(config) {
  torch::NoGradGuard no_grad;
  state_.params = weights.masters();
  state_.copies = weights.working();
  state_.ema = weights.keep_average();
  for (const Tensor& p : state_.params) {
    state_.first.push_back(at::zeros_like(p));
    state_.second.push_back(at::zeros_like(p));
  }
  const at::TensorOptions there(state_.params.front().device());
  numbers_ = at::zeros({sizeof(kernels::AdamWStep)}, there.dtype(at::kByte));
  norm_ = at::zeros({}, there.dtype(at::kDouble));
}

void Optimizer::prepare(double lr) {
  weights_.begin_update();
  ++steps_;
  const double t = static_cast<double>(steps_);
  const double ema_decay = std::min(config_.ema, (1 + t) / (10 + t));
  kernels::AdamWStep step{};
  step.lr = static_cast<float>(lr);
  step.rate1 = static_cast<float>(1 - config_.beta1);
  step.rate2 = static_cast<float>(1 - config_.beta2);
  step.eps = static_cast<float>(config_.eps);
  step.weight_decay = static_cast<float>(config_.weight_decay);
  step.correction1 = static_cast<float>(1 - std::pow(config_.beta1, t));
  step.correction2 = static_cast<float>(1 - std::pow(config_.beta2, t));
  step.ema_rate = static_cast<float>(1 - ema_decay);
  step.clip = config_.clip;
  upload(std::span<const kernels::AdamWStep>(&step, 1), numbers_);
}

void Optimizer::update() {
  torch::NoGradGuard no_grad;
  std::vector<Tensor> grads;
  for (std::size_t i = 0; i < state_.params.size(); ++i) {
    grads.push_back(ops::laid_out_like(take_gradient(i), state_.params[i]));
  }
  ops::global_norm(grads, norm_);
  ops::adamw(numbers_, norm_, grads, state_);
}

void Optimizer::gather_gradients() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < state_.params.size(); ++i) {
    state_.params[i].mutable_grad() = take_gradient(i).to(at::kFloat);
  }
}

Tensor Optimizer::take_gradient(std::size_t i) {
  const auto take = [](Tensor& of) {
    return of.defined() ? std::exchange(of.mutable_grad(), Tensor()) : Tensor();
  };
  Tensor own = take(state_.params[i]);
  const Tensor from_copy = take(state_.copies[i]);
  TORCH_CHECK(own.defined() || from_copy.defined(), "parameter ", i, " has no gradient");
  if (!own.defined()) return from_copy;
  return from_copy.defined() ? own.add_(from_copy) : own;
}

std::vector<std::pair<const char*, std::vector<Tensor>*>> Optimizer::groups() {
  return {{"param", &state_.params},
          {"first", &state_.first},
          {"second", &state_.second},
          {"ema", &state_.ema}};
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensors] : const_cast<Optimizer*>(this)->groups()) {
    for (std::size_t i = 0; i < tensors->size(); ++i) {
      result[fmt::format("{}.{}", name, i)] = (*tensors)[i];
    }
  }
  return result;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state, std::int64_t steps,
                           const std::string& source) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensors] : groups()) {
    for (std::size_t i = 0; i < tensors->size(); ++i) {
      const auto found = state.find(fmt::format("{}.{}", name, i));
      require(found != state.end() && found->second.sizes() == (*tensors)[i].sizes(),
              "{}: tensor {}.{} is missing or has another shape", source, name, i);
      (*tensors)[i].copy_(found->second);
    }
  }
  steps_ = steps;
}

}  // namespace slift
