#include "benchmarks/rollout_bench.h"

#include "benchmarks/flops.h"
#include "benchmarks/measure.h"
#include "methods/transition_model.h"
#include "rollout/stepper.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kWarmupSteps = 5;  // kernels are loaded, plans chosen, graphs recorded

Tensor random_window(const TransitionModel& model, std::int64_t batch) {
  std::vector<std::int64_t> shape = {batch, model.spec().net.window};
  shape.insert(shape.end(), model.spec().state_shape.begin(), model.spec().state_shape.end());
  return at::randn(shape, model.device());
}

// As a rollout does from the states it begins with.
void calibrate(TransitionModel& model) {
  Stepper stepper(model, kSeed, /*rows=*/1, /*graph=*/false);
  stepper.load(0, random_window(model, 1), 0);
  model.backbone().calibrate([&] { stepper.advance(); });
}

TransitionModel random_model(const BenchNet& net, const at::Device& device,
                             const std::string& precision) {
  ModelSpec spec;
  spec.net = net.config();
  spec.state_shape = net.state_shape();
  spec.method.lifting.dimension = net.label_dimension;
  // Steps are small beside the states: an untrained model stays bounded.
  const auto channels = static_cast<std::size_t>(net.channels);
  spec.normaliser = {std::vector<float>(channels, 0), std::vector<float>(channels, 1),
                     std::vector<float>(channels, 0.01f)};
  TransitionModel model(std::move(spec));
  model.backbone().initialise(kSeed);
  model.to(device);
  if (precision == "fp8") calibrate(model);
  model.set_precision(precision);
  return model;
}

}  // namespace

RolloutBench bench_rollout(const BenchNet& net, std::int64_t steps, std::int64_t repeats) {
  const at::Device device = resolve_device(net.device);
  check_kernel_profile(net, device);
  RolloutBench result;
  result.precision = resolve_precision(net.precision, device);
  const TransitionModel model = random_model(net, device, result.precision);
  Stepper stepper(model, kSeed, net.batch);
  stepper.load(0, random_window(model, net.batch), 0);
  const auto step = [&] { stepper.advance(); };
  for (int i = 0; i < kWarmupSteps; ++i) step();
  result.ms_per_step = milliseconds_per_call(device, steps, repeats, step);
  if (net.kernels) result.kernels = profile_kernels(step);
  TORCH_CHECK(at::isfinite(stepper.window()).all().item<bool>(),
              "rollout bench: the states are no longer finite");
  result.peak_memory = peak_memory(device);
  result.parameters = model.parameter_count();
  result.flops_per_frame = flops_per_evaluation(model.backbone());
  result.flops_per_second =
      1000 * result.flops_per_frame * static_cast<double>(net.batch) / result.ms_per_step;
  result.ceilings = measure_ceilings(device, compute_type(result.precision));
  return result;
}

}  // namespace slift
