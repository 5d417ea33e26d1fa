#include "training/energy_score.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

// Keeps derivatives finite where two states are the same.
constexpr double kSquaredRounding = 1e-8;

// Squared distances of all pairs: a [T, A, n], b [T, B, n] -> [T, A, B].
Tensor squared_distances(const Tensor& a, const Tensor& b) {
  const Tensor norms = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2);
  return (norms - 2 * at::matmul(a, b.transpose(1, 2))).clamp_min(0);
}

// sum_j weight_ij (a_i - b_j), for all i.
Tensor weighted_differences(const Tensor& weight, const Tensor& a, const Tensor& b) {
  return weight.sum(-1).unsqueeze(-1) * a - at::matmul(weight, b);
}

// CRPS of each component alone: g [T, G, n] and y [T, Y, n] -> [T], and the derivative by g.
struct ComponentScore {
  Tensor value, gradient;
};

ComponentScore score_components(const Tensor& g, const Tensor& y) {
  const std::int64_t members = g.size(1);
  Tensor value = at::zeros({g.size(0)}, g.options());
  const Tensor gradient = at::empty_like(g);
  const double own_pairs = static_cast<double>(members * (members - 1));
  for (std::int64_t i = 0; i < members; ++i) {
    const Tensor own = g.narrow(1, i, 1), to_truth = own - y, to_members = own - g;
    value += to_truth.abs().mean({1, 2}) / static_cast<double>(members) -
             to_members.abs().sum(1).mean(1) / (2 * own_pairs);
    gradient.select(1, i).copy_((to_truth.sign().mean(1) / static_cast<double>(members) -
                                 to_members.sign().sum(1) / own_pairs));
  }
  return {value, gradient};
}

// Calls body(first, count) for parts of T steps: on the CPU one at a time, on many threads.
template <typename Body>
void for_steps(const Tensor& like, const Body& body) {
  const std::int64_t steps = like.size(0);
  if (like.is_cuda()) return body(0, steps);
  parallel_for(steps, [&](std::int64_t t) {
    const torch::NoGradGuard no_grad;  // of this thread
    const SerialMath serial;
    body(t, 1);
  });
}

}  // namespace

EnergyScore energy_score(const Tensor& generated, const Tensor& truth, const Tensor& scale) {
  const torch::NoGradGuard no_grad;
  const SerialMath serial;  // sums between the parts, too
  const std::int64_t steps = generated.size(0), members = generated.size(1), truths = truth.size(1),
                     size = generated.size(2);
  const Tensor unit = (scale * std::sqrt(static_cast<double>(size))).view({steps, 1, 1});
  Tensor g = at::empty_like(generated), y = at::empty_like(truth);
  Tensor to_truth = at::empty({steps, members, truths}, g.options());
  Tensor to_members = at::empty({steps, members, members}, g.options());
  for_steps(g, [&](std::int64_t t, std::int64_t count) {
    const auto part = [&](const Tensor& x) { return x.narrow(0, t, count); };
    // Subtracts the mean of the truth, or squared distances would cancel.
    const Tensor middle = part(truth).mean(1, /*keepdim=*/true);
    part(g).copy_((part(generated) - middle) / part(unit));
    part(y).copy_((part(truth) - middle) / part(unit));
    part(to_truth).copy_(squared_distances(part(g), part(y)));
    part(to_members).copy_(squared_distances(part(g), part(g)));
  });

  // Takes the mean over steps for whole trajectories, too, so that their distances are as large as
  // those of states.
  const auto root = [](const Tensor& squared) { return (squared + kSquaredRounding).sqrt(); };
  const Tensor paths_to_truth = root(to_truth.mean(0)), paths_to_members = root(to_members.mean(0));
  const double pairs = static_cast<double>(members * truths);
  const double own_pairs = static_cast<double>(members * (members - 1));
  const Tensor others = 1 - at::eye(members, g.options());
  const auto score = [&](const Tensor& truth_distance, const Tensor& member_distance) {
    return truth_distance.sum() / pairs - (member_distance * others).sum() / (2 * own_pairs);
  };
  EnergyScore result{score(paths_to_truth, paths_to_members), at::empty_like(generated)};
  const double n = static_cast<double>(steps);
  Tensor of_steps = at::empty({steps}, g.options());
  for_steps(g, [&](std::int64_t t, std::int64_t count) {
    const auto part = [&](const Tensor& x) { return x.narrow(0, t, count); };
    const Tensor d = root(part(to_truth)), own = root(part(to_members));
    const Tensor members_here = part(g), truths_here = part(y);
    // Brings components from units of a state's length to those of its root mean square.
    const double cells = static_cast<double>(size);
    const ComponentScore alone = score_components(members_here, truths_here);
    part(of_steps).copy_(d.sum({1, 2}) / pairs - (own * others).sum({1, 2}) / (2 * own_pairs) +
                         alone.value * std::sqrt(cells));
    const Tensor pull = (1 / d + 1 / paths_to_truth) / (n * pairs);
    const Tensor push = (1 / own + 1 / paths_to_members) * others / (n * own_pairs);
    part(result.gradient)
        .copy_((weighted_differences(pull, members_here, truths_here) -
                weighted_differences(push, members_here, members_here) +
                alone.gradient / (n * std::sqrt(cells))) /
               part(unit));
  });
  result.value += of_steps.mean();
  return result;
}

}  // namespace slift
