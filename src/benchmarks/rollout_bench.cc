#include "benchmarks/rollout_bench.h"

#include <c10/core/InferenceMode.h>

#include "benchmarks/flops.h"
#include "benchmarks/measure.h"
#include "nets/transition_model.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kWarmupSteps = 5;  // kernels are loaded, plans chosen, graphs recorded

TransitionModel random_model(const BenchNet& net, const at::Device& device,
                             const std::string& precision) {
  ModelSpec spec;
  spec.net = net.config();
  spec.state_shape = net.state_shape();
  spec.label_dimension = net.label_dimension;
  // Steps are small beside the states: an untrained model stays bounded.
  const auto channels = static_cast<std::size_t>(net.channels);
  spec.normaliser = {std::vector<float>(channels, 0), std::vector<float>(channels, 1),
                     std::vector<float>(channels, 0.01f)};
  TransitionModel model(std::move(spec));
  model.backbone().initialise(kSeed);
  model.to(device);
  model.set_precision(precision);
  return model;
}

// `batch` members on their way through time, from random states.
class Members {
 public:
  Members(const TransitionModel& model, std::int64_t batch)
      : model_(model), labels_{kSeed, model.spec().label_dimension} {
    std::vector<std::int64_t> shape = {batch, model.spec().net.window};
    shape.insert(shape.end(), model.spec().state_shape.begin(), model.spec().state_shape.end());
    window_ = at::randn(shape, model.device());
    members_ = at::arange(batch, at::TensorOptions(at::kLong).device(model.device()));
  }

  void step() {
    const Tensor next = model_.forward(window_, labels_.for_members(members_, time_++));
    window_ = at::cat({window_.narrow(1, 1, window_.size(1) - 1), next.unsqueeze(1)}, 1);
  }

  bool finite() const { return at::isfinite(window_).all().item<bool>(); }

 private:
  const TransitionModel& model_;
  LabelSource labels_;
  Tensor members_, window_;  // [B] int64; [B, m, state...]
  std::int64_t time_ = 0;
};

}  // namespace

RolloutBench bench_rollout(const BenchNet& net, std::int64_t steps, std::int64_t repeats) {
  const at::Device device = resolve_device(net.device);
  check_kernel_profile(net, device);
  RolloutBench result;
  result.precision = resolve_precision(net.precision, device);
  const TransitionModel model = random_model(net, device, result.precision);
  {
    const c10::InferenceMode inference;
    Members members(model, net.batch);
    for (int i = 0; i < kWarmupSteps; ++i) members.step();
    result.ms_per_step = milliseconds_per_call(device, steps, repeats, [&] { members.step(); });
    if (net.kernels) result.kernels = profile_kernels([&] { members.step(); });
    TORCH_CHECK(members.finite(), "rollout bench: the states are no longer finite");
  }
  result.peak_memory = peak_memory(device);
  result.parameters = model.parameter_count();
  result.flops_per_frame = flops_per_evaluation(model.backbone());
  result.flops_per_second =
      1000 * result.flops_per_frame * static_cast<double>(net.batch) / result.ms_per_step;
  result.ceilings = measure_ceilings(device, compute_type(result.precision));
  return result;
}

}  // namespace slift
