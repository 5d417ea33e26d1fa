#include "training/shards.h"

#include <torch/autograd.h>

#include <algorithm>
#include <mutex>

#include "core/parallel.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

// Adds up what shards give, in their order, whichever is done first.
class OrderedSum {
 public:
  explicit OrderedSum(std::int64_t shards) : early_(static_cast<std::size_t>(shards)) {}

  void add(std::int64_t shard, std::vector<Tensor> parts) {
    const torch::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    early_[static_cast<std::size_t>(shard)] = std::move(parts);
    for (; next_ < early_.size() && !early_[next_].empty(); ++next_) {
      std::vector<Tensor> of_next = std::move(early_[next_]);
      early_[next_].clear();
      if (sums_.empty()) {
        // Autograd may have given two parameters one tensor.
        for (const Tensor& part : of_next) sums_.push_back(part.clone());
        continue;
      }
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].add_(of_next[i]);
    }
  }
  const std::vector<Tensor>& sums() const { return sums_; }

 private:
  std::mutex mutex_;
  std::vector<std::vector<Tensor>> early_;  // by shard: done, but not yet its turn
  std::size_t next_ = 0;                    // the shard whose turn it is
  std::vector<Tensor> sums_;
};

}  // namespace

std::int64_t rows_of_shard(std::int64_t rows, const std::vector<std::int64_t>& state_shape) {
  const bool fields = state_shape.size() == 3;
  return fields ? std::max<std::int64_t>(1, rows / 16)
                : std::clamp<std::int64_t>(rows / 8, 32, 256);
}

Tensor backward_in_shards(const std::vector<Tensor>& params, std::int64_t rows, std::int64_t shard,
                          const std::function<Tensor(std::int64_t, std::int64_t)>& loss_of) {
  const std::int64_t shards = (rows + shard - 1) / shard;
  OrderedSum sum(shards);
  parallel_for(shards, [&](std::int64_t i) {
    const SerialMath serial;
    const std::int64_t first = i * shard, count = std::min(shard, rows - first);
    const Tensor loss =
        loss_of(first, count) * (static_cast<double>(count) / static_cast<double>(rows));
    std::vector<Tensor> parts = torch::autograd::grad({loss}, params);
    parts.push_back(loss.detach());
    sum.add(i, std::move(parts));
  });
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Tensor param = params[i];
    Tensor& grad = param.mutable_grad();
    grad = grad.defined() ? grad + sum.sums()[i] : sum.sums()[i];
  }
  return sum.sums().back();
}

}  // namespace slift
