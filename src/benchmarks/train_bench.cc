#include "benchmarks/train_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <span>
#include <system_error>
#include <vector>

#include "benchmarks/flops.h"
#include "benchmarks/measure.h"
#include "core/random.h"
#include "data/trajectories.h"
#include "tensor/runtime.h"
#include "training/trainer.h"

namespace slift {
namespace {

constexpr std::int64_t kMembers = 32, kStates = 17;
constexpr int kWarmupIterations = 8;  // kernels are loaded, plans chosen, graphs recorded

// A file of this process in the temporary folder; removed at the end.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() / fmt::format("slift-bench-{}.h5", getpid())) {
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Adds cos(2 pi (kx x + ky y) / size + phase) for all cells of a size x size field.
void add_wave(double kx, double ky, double phase, std::int64_t size, float* field) {
  const double unit = 2 * std::numbers::pi / static_cast<double>(size);
  for (std::int64_t y = 0; y < size; ++y) {
    const double row = unit * ky * static_cast<double>(y) + phase;
    for (std::int64_t x = 0; x < size; ++x) {
      *field++ += static_cast<float>(std::cos(unit * kx * static_cast<double>(x) + row));
    }
  }
}

// One trajectory: in each channel a few waves of random direction and speed.
void draw_trajectory(const TrajectoryInfo& info, std::int64_t member, std::span<float> states) {
  constexpr int kWaves = 3;
  const std::int64_t size = info.state_shape[1];
  std::fill(states.begin(), states.end(), 0.0f);
  for (std::int64_t channel = 0; channel < info.channels(); ++channel) {
    std::array<float, 4 * kWaves> random;
    fill_uniform({1, Purpose::kSystemNoise, static_cast<std::uint64_t>(member),
                  static_cast<std::uint32_t>(channel)},
                 random);
    for (int wave = 0; wave < kWaves; ++wave) {
      const float* r = random.data() + 4 * wave;
      for (std::int64_t t = 0; t < info.steps; ++t) {
        add_wave(std::floor(4 * r[0]), 1 + std::floor(3 * r[1]),
                 6.28 * r[2] + (0.1 + 0.4 * r[3]) * static_cast<double>(t), size,
                 states.data() + (t * info.channels() + channel) * size * size);
      }
    }
  }
}

void write_data(const BenchNet& net, const std::filesystem::path& path) {
  TrajectoryInfo info;
  info.members = kMembers;
  info.steps = kStates;
  info.state_shape = net.state_shape();
  TrajectoryWriter writer(path, info);
  std::vector<float> states(static_cast<std::size_t>(info.trajectory_size()));
  for (std::int64_t member = 0; member < kMembers; ++member) {
    draw_trajectory(info, member, states);
    writer.write(member, 1, states);
  }
  writer.commit();
}

TrainConfig train_config(const BenchNet& net, const std::filesystem::path& data,
                         const std::string& precision) {
  TrainConfig config;
  config.path = data.string();
  config.memory_mb = std::int64_t{1} << 20;
  config.method.lifting.dimension = net.label_dimension;
  config.net = net.config();
  config.batch = net.batch;
  config.precision = precision;
  config.device = net.device;
  return config;
}

}  // namespace

TrainBench bench_train(const BenchNet& net, std::int64_t iterations, std::int64_t repeats) {
  const TemporaryFile data;
  write_data(net, data.path());
  TrainBench result;
  const auto start = std::chrono::steady_clock::now();
  const at::Device device = resolve_device(net.device);
  check_kernel_profile(net, device);
  result.precision = resolve_precision(net.precision, device);
  Ranks alone{RankInfo{}, device};
  Trainer trainer(train_config(net, data.path(), result.precision), alone);
  Tensor loss;
  const auto iterate = [&] {
    bool stop = false;
    loss = trainer.step(/*phase=*/0, stop);
  };
  iterate();
  wait_for(device);
  result.startup_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  for (int i = 1; i < kWarmupIterations; ++i) iterate();
  result.ms_per_iteration = milliseconds_per_call(device, iterations, repeats, iterate);
  if (net.kernels) result.kernels = profile_kernels(iterate);
  result.loss = loss.item<double>();
  TORCH_CHECK(std::isfinite(result.loss), "train bench: the loss is no longer finite");
  result.peak_memory = peak_memory(device);
  result.parameters = trainer.model().parameter_count();
  result.flops_per_frame = flops_per_evaluation(trainer.model().backbone());
  result.flops_per_second =
      3e3 * result.flops_per_frame * static_cast<double>(net.batch) / result.ms_per_iteration;
  result.ceilings = measure_ceilings(device, compute_type(result.precision));
  return result;
}

}  // namespace slift
