#include "nets/weights.h"

#include <c10/core/InferenceMode.h>
#include <torch/autograd.h>

#include <map>
#include <utility>

namespace slift {
namespace {

// Copies `from` to where `to` is in memory; a tensor that does not fit is replaced.
void put(const Tensor& from, Tensor& to) {
  const bool fits = from.defined() && to.defined() && to.sizes() == from.sizes() &&
                    to.strides() == from.strides() && to.device() == from.device() &&
                    to.scalar_type() == from.scalar_type();
  if (fits) {
    to.copy_(from);
  } else {
    to = from;
  }
}

}  // namespace

Tensor Weight::as(at::ScalarType type) const {
  return working.defined() && working.scalar_type() == type ? working : master.to(type);
}

Tensor DerivedWeight::as(at::ScalarType type) const {
  return keeps(type) && !at::GradMode::is_enabled() ? kept_ : make_(type);
}

void DerivedWeight::renew(at::ScalarType type) {
  const Tensor made = type != at::kFloat || in_float_ ? make_(type) : Tensor();
  type_ = type;
  put(made, kept_);
}

std::shared_ptr<const Weight> Weights::add_working(const Tensor& master) {
  return weights_.emplace_back(std::make_shared<Weight>(Weight{master, {}}));
}

std::shared_ptr<const DerivedWeight> Weights::add_derived(DerivedWeight::Make make, bool in_float) {
  return derived_.emplace_back(std::make_shared<DerivedWeight>(std::move(make), in_float));
}

std::vector<Tensor> Weights::working() {
  sync_working(version());
  std::map<const void*, Tensor> found;
  for (const auto& weight : weights_) found[weight->master.unsafeGetTensorImpl()] = weight->working;
  std::vector<Tensor> result;
  for (const Tensor& master : masters_) result.push_back(found[master.unsafeGetTensorImpl()]);
  return result;
}

void Weights::set_type(at::ScalarType type) {
  type_ = type;
  invalidate();
}

std::uint64_t Weights::version() const {
  std::uint64_t sum = changes_;
  for (const auto& weight : weights_) sum += static_cast<std::uint64_t>(weight->master._version());
  return sum;
}

void Weights::sync() {
  const bool derived_too = !at::GradMode::is_enabled();
  const std::uint64_t now = version();
  if ((derived_too ? derived_at_ : working_at_).load(std::memory_order_acquire) == now) return;
  const std::lock_guard lock(mutex_);
  sync_working(now);
  if (!derived_too || derived_at_ == now) return;
  const c10::InferenceMode normal_tensors(false);
  const torch::NoGradGuard no_grad;
  for (const auto& derived : derived_) derived->renew(type_);
  derived_at_.store(now, std::memory_order_release);
}

void Weights::sync_working(std::uint64_t version) {
  if (working_at_ == version) return;
  const c10::InferenceMode normal_tensors(false);
  const torch::NoGradGuard no_grad;
  for (const auto& weight : weights_) {
    const bool copied = weight->master.scalar_type() != type_ && type_ != at::kFloat;
    put(copied ? weight->master.to(type_) : Tensor(), weight->working);
    if (copied) weight->working.requires_grad_(weight->master.requires_grad());
  }
  working_at_.store(version, std::memory_order_release);
}

void Weights::begin_update() {
  sync_working(version());
  invalidate();
  working_at_ = version();
}

const std::vector<Tensor>& Weights::keep_average() {
  if (!has_average()) {
    for (const Tensor& master : masters_) average_.push_back(master.detach().clone());
  }
  return average_;
}

void Weights::with_average(const std::function<void()>& use) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> own;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    own.push_back(masters_[i].clone());
    masters_[i].copy_(average_.at(i));
  }
  const auto restore = [&] {
    for (std::size_t i = 0; i < masters_.size(); ++i) masters_[i].copy_(own[i]);
  };
  try {
    use();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

}  // namespace slift
