#include "training/optimizer.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors.h"

namespace slift {

double schedule(std::int64_t step, std::int64_t warmup, double phase) {
  const double rise =
      warmup > 0 ? std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(warmup)) : 1.0;
  return rise * 0.5 * (1 + std::cos(std::numbers::pi * std::min(phase, 1.0)));
}

Optimizer::Optimizer(std::vector<Tensor> params, const TrainConfig& config) : config_(config) {
  torch::NoGradGuard no_grad;
  for (const Tensor& p : params) {
    state_.first.push_back(at::zeros_like(p));
    state_.second.push_back(at::zeros_like(p));
    state_.ema.push_back(p.detach().clone());
    if (p.is_cuda()) cuda_steps_.push_back(at::zeros({}, p.options()));
  }
  state_.params = std::move(params);
}

double Optimizer::step(double lr) {
  torch::NoGradGuard no_grad;
  ++steps_;
  const double t = static_cast<double>(steps_);
  const double ema_decay = std::min(config_.ema, (1 + t) / (10 + t));
  double norm = -1;
  if (state_.params.front().is_cuda()) {
    step_cuda(lr, ema_decay);
  } else {
    norm = step_cpu(lr, ema_decay);
  }
  for (Tensor& p : state_.params) p.mutable_grad() = Tensor();
  return norm;
}

double Optimizer::step_cpu(double lr, double ema_decay) {
  std::vector<Tensor> grads;
  for (const Tensor& p : state_.params) grads.push_back(p.grad().contiguous());
  const double norm = ops::global_norm(grads);
  const bool clipped = config_.clip > 0 && norm > config_.clip;
  const double t = static_cast<double>(steps_);
  kernels::cpu::AdamWStep update{};
  update.lr = static_cast<float>(lr);
  update.rate1 = static_cast<float>(1 - config_.beta1);
  update.rate2 = static_cast<float>(1 - config_.beta2);
  update.eps = static_cast<float>(config_.eps);
  update.weight_decay = static_cast<float>(config_.weight_decay);
  update.correction1 = static_cast<float>(1 - std::pow(config_.beta1, t));
  update.correction2 = static_cast<float>(1 - std::pow(config_.beta2, t));
  update.grad_scale = clipped ? static_cast<float>(config_.clip / norm) : 1.0f;
  update.ema_rate = static_cast<float>(1 - ema_decay);
  ops::adamw(update, grads, state_);
  return norm;
}

void Optimizer::step_cuda(double lr, double ema_decay) {
  std::vector<Tensor> grads;
  for (const Tensor& p : state_.params) grads.push_back(p.grad());
  if (config_.clip > 0) {
    std::vector<Tensor> norms;
    for (const Tensor& g : grads) norms.push_back(g.norm());
    const Tensor scale = (config_.clip / at::stack(norms).norm()).clamp_max(1.0);
    for (Tensor& g : grads) g.mul_(scale);
  }
  for (Tensor& s : cuda_steps_) s.add_(1);
  torch_fused_adamw(state_.params, grads, state_.first, state_.second, cuda_steps_,
                    {lr, config_.beta1, config_.beta2, config_.weight_decay, config_.eps});
  for (std::size_t i = 0; i < state_.ema.size(); ++i) {
    state_.ema[i].lerp_(state_.params[i], 1 - ema_decay);
  }
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
  for (Tensor& s : cuda_steps_) s.fill_(static_cast<double>(steps));
  steps_ = steps;
}

}  // namespace slift
