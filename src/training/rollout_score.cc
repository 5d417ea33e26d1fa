#include "training/rollout_score.h"

#include <torch/autograd.h>

#include <algorithm>
#include <vector>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tensor/runtime.h"
#include "tensor/upload.h"
#include "training/shards.h"

namespace slift {
namespace {

// Keeps these members apart from those of rollouts and of the gauge: none meets a label again.
constexpr std::int64_t kFirstMember = std::int64_t{1} << 48;
// Measures differences in this share of the largest spread where trajectories hardly differ.
constexpr double kLeastSpread = 1e-3;
// Takes a spread for rounding, in standard deviations of the states.
constexpr double kRounding = 1e-6;

// `count` trajectories spread over the first `members`, their states 0 .. states-1.
Tensor read_trajectories(const TrajectoryReader& reader, std::int64_t members, std::int64_t count,
                         std::int64_t states) {
  const TrajectoryInfo& info = reader.info();
  std::vector<std::int64_t> shape = {info.steps};
  shape.insert(shape.end(), info.state_shape.begin(), info.state_shape.end());
  const Tensor whole = at::empty(shape, at::kFloat);
  shape[0] = states;
  shape.insert(shape.begin(), count);
  Tensor kept = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < count; ++i) {
    reader.read(i * members / count, 1,
                {whole.data_ptr<float>(), static_cast<std::size_t>(whole.numel())});
    kept.select(0, i).copy_(whole.narrow(0, 0, states));
  }
  return kept;
}

// What states of trajectories [N, T, state...] vary by at each step, in `std` of their channels:
// [T].
Tensor spread_of(const Tensor& trajectories, const Tensor& std) {
  const SerialMath serial;
  const Tensor spread = ((trajectories - trajectories.mean(0)) / std)
                            .flatten(2)
                            .square()
                            .mean(at::IntArrayRef({0, 2}))
                            .sqrt();
  const double largest = spread.max().item<double>();
  require(largest > kRounding,
          "score.from: all trajectories are the same, there is nothing to score");
  return spread.clamp_min(kLeastSpread * largest);
}

}  // namespace

RolloutScore::RolloutScore(const TrainConfig& config, const TrajectoryReader& reader,
                           std::int64_t members, std::int64_t bytes, const TransitionModel& model)
    : model_(model),
      seed_(static_cast<std::uint64_t>(config.seed)),
      members_(config.score.members),
      truths_(config.score.truths),
      weight_(config.score.weight) {
  const TrajectoryInfo& info = reader.info();
  require(model.method().evaluations() == 1,
          "score.from: method {} evaluates its network {} times a step; only those of one can be "
          "trained on rollouts",
          config.method.kind, model.method().evaluations());
  steps_ = config.score.steps > 0 ? config.score.steps : info.steps - 1;
  require(steps_ < info.steps, "score.steps = {}: trajectories of {} have {} steps", steps_,
          config.path, info.steps - 1);
  const std::int64_t trajectory_bytes =
      (steps_ + 1) * info.trajectory_size() / info.steps * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t kept = std::clamp<std::int64_t>(bytes / trajectory_bytes, 2, members);
  const Tensor host = read_trajectories(reader, members, kept, steps_ + 1);
  const at::TensorOptions there(model.device());
  trajectories_ = host.to(there.device());
  std::vector<std::int64_t> channels(info.state_shape.size(), 1);
  channels[0] = info.state_shape[0];
  // Channels count by their own units, as in the regression.
  const Tensor std = at::tensor(model.spec().normaliser.std, at::kFloat).view(channels);
  scale_ = spread_of(host, std).to(there.device());
  chosen_ = at::zeros({members_ + truths_}, there.dtype(at::kLong));
  ids_ = at::zeros({members_}, there.dtype(at::kLong));
  times_ = at::arange(steps_, there.dtype(at::kLong));
}

void RolloutScore::stage(std::int64_t iteration) {
  std::vector<float> uniform(static_cast<std::size_t>(members_ + truths_));
  fill_uniform({seed_, Purpose::kScoredTrajectories, static_cast<std::uint64_t>(iteration)},
               uniform);
  const std::int64_t kept = trajectories_.size(0);
  std::vector<std::int64_t> chosen, ids;
  for (const float u : uniform) {
    chosen.push_back(std::min(static_cast<std::int64_t>(u * static_cast<float>(kept)), kept - 1));
  }
  for (std::int64_t i = 0; i < members_; ++i)
    ids.push_back(kFirstMember + iteration * members_ + i);
  upload(std::span<const std::int64_t>(chosen), chosen_);
  upload(std::span<const std::int64_t>(ids), ids_);
}

void RolloutScore::roll_out_rows(const Tensor& start, std::int64_t first, std::int64_t count,
                                 const Tensor& path, const Tensor& numbers) const {
  // Leaves gradients on, though none is taken: without them a network may use forms of its weights
  // that a recorded step does not renew.
  const at::AutoGradMode gradients(true);
  const Tensor ids = ids_.narrow(0, first, count);
  Tensor state = start.narrow(0, first, count);
  Tensor window = state.unsqueeze(1);
  window =
      at::cat(std::vector<Tensor>(static_cast<std::size_t>(model_.spec().net.window), window), 1);
  for (std::int64_t t = 0; t < steps_; ++t) {
    path.select(0, t).narrow(0, first, count).copy_(state);
    const Tensor drawn = at::empty({count, numbers.size(2)}, numbers.options());
    model_.method().draw(seed_, ids, times_.narrow(0, t, 1), drawn);
    numbers.select(0, t).narrow(0, first, count).copy_(drawn);
    state = model_.forward(window, drawn).detach();
    window = at::cat({window.narrow(1, 1, window.size(1) - 1), state.unsqueeze(1)}, 1);
  }
  path.select(0, steps_).narrow(0, first, count).copy_(state);
}

ScoredSteps RolloutScore::roll_out(std::int64_t first, std::int64_t count) const {
  const Tensor start = trajectories_.select(1, 0).index_select(0, chosen_.narrow(0, 0, members_));
  std::vector<std::int64_t> shape = start.sizes().vec();
  shape.insert(shape.begin(), steps_ + 1);
  const Tensor path = at::empty(shape, start.options());
  const Tensor numbers = at::empty({steps_, members_, model_.method().numbers()}, start.options());
  if (model_.device().is_cpu()) {
    const std::int64_t rows = rows_of_shard(members_, model_.spec().state_shape);
    parallel_for((members_ + rows - 1) / rows, [&](std::int64_t i) {
      const SerialMath serial;
      roll_out_rows(start, i * rows, std::min(rows, members_ - i * rows), path, numbers);
    });
  } else {
    roll_out_rows(start, 0, members_, path, numbers);
  }

  const torch::NoGradGuard no_grad;
  const Tensor truth = trajectories_.index_select(0, chosen_.narrow(0, members_, truths_));
  // Scales channels to their own units.
  const Tensor std = model_.scales().std;
  const auto in_rows = [&](const Tensor& states) { return (states / std).flatten(2).contiguous(); };
  const EnergyScore score = energy_score(in_rows(path), in_rows(truth.transpose(0, 1)), scale_);

  ScoredSteps result;
  result.score = score.value;
  const Tensor own = path.narrow(1, first, count);
  std::vector<Tensor> windows;
  for (std::int64_t t = 0; t < steps_; ++t) {
    std::vector<Tensor> states;
    for (std::int64_t j = t - model_.spec().net.window + 1; j <= t; ++j) {
      states.push_back(own.select(0, std::max<std::int64_t>(j, 0)));
    }
    windows.push_back(at::stack(states, 1));  // [count, m, state...]
  }
  const auto by_member = [](const Tensor& x) {
    return x.transpose(0, 1).flatten(0, 1).contiguous();
  };
  result.window = by_member(at::stack(windows));
  result.numbers = by_member(numbers.narrow(1, first, count));
  const Tensor pull = score.gradient.view_as(path) * (weight_ / std);
  // Ignores a rollout that left all bounds.
  result.pull =
      at::nan_to_num(by_member(pull.narrow(0, 1, steps_).narrow(1, first, count)), 0, 0, 0);
  return result;
}

}  // namespace slift
