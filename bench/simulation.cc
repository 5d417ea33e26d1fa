// How fast a system is simulated, and, for wave and flow, the statistics of its crossing times.
//   bench_simulation SYSTEM MEMBERS [cpu|cuda] [key=value...]
// Rates are medians over batches; nothing is written to disk.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "metrics/quantity.h"
#include "systems/system.h"

namespace {

// Mean and deviation of the crossing times, counting those that never cross as 1 and not at all.
nlohmann::json crossing_statistics(const std::vector<std::optional<double>>& times) {
  const auto moments = [&](bool with_never) {
    double n = 0, sum = 0, squares = 0;
    for (const auto& time : times) {
      if (!time && !with_never) continue;
      const double t = time.value_or(1);
      n += 1, sum += t, squares += t * t;
    }
    const double mean = sum / n;
    return nlohmann::json{{"mean", mean}, {"std", std::sqrt(squares / n - mean * mean)}};
  };
  const auto never = std::count(times.begin(), times.end(), std::nullopt);
  return {{"never", static_cast<double>(never) / static_cast<double>(times.size())},
          {"never_as_1", moments(true)},
          {"crossed_only", moments(false)}};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace slift;
  if (argc < 3) {
    fmt::print(stderr, "usage: {} SYSTEM MEMBERS [cpu|cuda] [key=value...]\n", argv[0]);
    return 2;
  }
  const auto system = make_system(argv[1]);
  const std::int64_t members = std::atoll(argv[2]);
  const Device device = argc > 3 && std::string(argv[3]) == "cuda" ? Device::kCuda : Device::kCpu;
  ConfigSchema schema = system->schema();
  for (int i = 4; i < argc; ++i) schema.apply_setting(argv[i]);
  const TrajectoryInfo info = system->describe();
  const std::vector<Quantity> quantities = standard_quantities(info);
  const bool crosses = !quantities.empty() && quantities.back().has_crossing();

  const std::int64_t batch = std::min(members, system->preferred_batch(device));
  std::vector<float> states(static_cast<std::size_t>(batch * info.trajectory_size()));
  std::vector<double> rates;
  std::vector<std::optional<double>> crossings;
  for (std::int64_t first = 0; first < members; first += batch) {
    const std::int64_t count = std::min(batch, members - first);
    const auto part =
        std::span(states).first(static_cast<std::size_t>(count * info.trajectory_size()));
    const auto start = std::chrono::steady_clock::now();
    system->simulate({0, first, count, part, {}}, device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (count == batch) rates.push_back(static_cast<double>(count) / seconds.count());
    if (!crosses) continue;
    const StateFunction watched(quantities.back(), info);
    const auto size = static_cast<std::size_t>(info.state_size());
    std::vector<float> series(static_cast<std::size_t>(info.steps));
    for (std::size_t i = 0; i < part.size() / size; i += series.size()) {
      for (std::size_t t = 0; t < series.size(); ++t) {
        series[t] = watched(part.subspan((i + t) * size, size));
      }
      crossings.push_back(first_crossing(quantities.back(), series));
    }
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2),
                   rates.end());
  const double rate = rates[rates.size() / 2];
  nlohmann::json result = {{"system", info.system},
                           {"device", device == Device::kCuda ? "cuda" : "cpu"},
                           {"threads", omp_get_max_threads()},
                           {"members", members},
                           {"batch", batch},
                           {"trajectories_per_second", rate},
                           {"frames_per_second", rate * static_cast<double>(info.steps)}};
  if (crosses) result["crossing"] = crossing_statistics(crossings);
  fmt::print("{}\n", result.dump());
  return 0;
}
