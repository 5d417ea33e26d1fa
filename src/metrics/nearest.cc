#include "metrics/nearest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "core/errors.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/progress.h"
#include "kernels/ops.h"
#include "tensor/runtime.h"

namespace slift {

using nlohmann::json;

namespace {

// A trajectory in a file.
struct Member {
  const TrajectoryReader* file;
  std::int64_t index;
};

using Members = std::vector<Member>;

Members first_members(const TrajectoryReader& file, std::int64_t count) {
  Members members;
  for (std::int64_t i = 0; i < count; ++i) members.push_back({&file, i});
  return members;
}

struct Nearest {
  std::size_t candidate = 0;
  double squared_distance = std::numeric_limits<double>::infinity();
};

// States step .. step+states-1 of trajectories, [members, states * state], in memory used again for
// every block.
class StateBuffer {
 public:
  StateBuffer(std::int64_t members, std::int64_t states, std::int64_t state_size)
      : state_size_(state_size), memory_(at::empty({members * states * state_size}, at::kFloat)) {}

  Tensor read(std::span<const Member> members, std::int64_t step, std::int64_t states) {
    const auto count = static_cast<std::int64_t>(members.size()), width = states * state_size_;
    const Tensor block = memory_.narrow(0, 0, count * width).view({count, width});
    float* row = block.data_ptr<float>();
    for (const Member& member : members) {
      const std::span<float> values(row, static_cast<std::size_t>(width));
      member.file->read_steps(member.index, 1, step, states, values);
      const auto bad =
          std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
      require(bad == values.end(), "{}: trajectory {}, step {}: {} is not finite",
              member.file->path(), member.index, step + (bad - values.begin()) / state_size_, *bad);
      row += width;
    }
    return block;
  }

 private:
  std::int64_t state_size_;
  Tensor memory_;
};

// For each query the nearest candidate over steps 1 .. steps, the first of several; not the
// candidate excluded[i] for query i, unless that is empty.
std::vector<Nearest> find_nearest(const Members& queries, const Members& candidates,
                                  const std::vector<std::size_t>& excluded, std::int64_t steps,
                                  const NearestOptions& options, const char* label) {
  const at::Device device = resolve_device(options.device);
  const std::int64_t state_size = candidates.front().file->info().state_size();
  const auto rows = static_cast<std::int64_t>(queries.size());
  const auto columns = static_cast<std::int64_t>(candidates.size());
  const DistanceBlocks cut = cut_distances(rows, columns, steps, state_size, options.memory_bytes);
  StateBuffer row_states(cut.rows, cut.states, state_size);
  StateBuffer column_states(cut.columns, cut.states, state_size);
  Progress progress(label, "states", rows * columns * steps);
  std::int64_t done = 0;
  std::vector<Nearest> nearest(queries.size());
  for (std::int64_t column = 0; column < columns; column += cut.columns) {
    const auto across =
        std::span(candidates)
            .subspan(static_cast<std::size_t>(column),
                     static_cast<std::size_t>(std::min(cut.columns, columns - column)));
    for (std::int64_t row = 0; row < rows; row += cut.rows) {
      const auto down = std::span(queries).subspan(
          static_cast<std::size_t>(row), static_cast<std::size_t>(std::min(cut.rows, rows - row)));
      const auto pairs = static_cast<std::int64_t>(down.size() * across.size());
      Tensor squares = at::zeros(
          {static_cast<std::int64_t>(down.size()), static_cast<std::int64_t>(across.size())},
          at::device(device).dtype(at::kDouble));
      for (std::int64_t step = 1; step <= steps; step += cut.states) {
        if (interrupt_requested()) throw Interrupted("search for copies stopped");
        const std::int64_t states = std::min(cut.states, steps + 1 - step);
        ops::add_squared_distances(row_states.read(down, step, states).to(device),
                                   column_states.read(across, step, states).to(device), squares);
        progress.update(done += pairs * states);
      }
      squares = squares.cpu();
      const double* square = squares.data_ptr<double>();
      for (std::size_t i = 0; i < down.size(); ++i) {
        const std::size_t query = static_cast<std::size_t>(row) + i;
        for (std::size_t j = 0; j < across.size(); ++j, ++square) {
          const std::size_t candidate = static_cast<std::size_t>(column) + j;
          if (!excluded.empty() && candidate == excluded[query]) continue;
          if (*square < nearest[query].squared_distance) nearest[query] = {candidate, *square};
        }
      }
    }
  }
  for (std::size_t i = 0; i < queries.size(); ++i) {
    require(std::isfinite(nearest[i].squared_distance),
            "{}: trajectory {} is too far from those of {}: the distance overflows",
            queries[i].file->path(), queries[i].index, candidates.front().file->path());
  }
  return nearest;
}

struct ValueAndShare {
  double value, copied;
};

// Of members that count[i] times each.
ValueAndShare weigh(const Neighbours& n, std::span<const float> count) {
  double members = 0, copied = 0, distance = 0, neighbour_distance = 0;
  for (std::size_t i = 0; i < n.nearest.size(); ++i) {
    const auto times = static_cast<double>(count[i]);
    members += times;
    copied += n.distance[i] <= 0.5 * n.neighbour_distance[i] ? times : 0;
    distance += times * n.distance[i];
    neighbour_distance += times * n.neighbour_distance[i];
  }
  return {distance / neighbour_distance, copied / members};
}

// Resamples the members of both sets, independently.
void set_intervals(NearestNeighbours& result, std::int64_t replicates) {
  const auto resampled = [](const Neighbours& n, std::uint64_t set, std::uint32_t replicate) {
    const auto members = static_cast<std::int64_t>(n.nearest.size());
    return weigh(n, resample_counts(members, set, replicate));
  };
  std::vector<double> values, floors, ratios, excesses;
  for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(replicates); ++r) {
    const ValueAndShare generated = resampled(result.members, 0, r);
    values.push_back(generated.value);
    if (!result.floor) continue;
    const ValueAndShare fresh = resampled(result.floor->members, 1, r);
    floors.push_back(fresh.value);
    ratios.push_back(generated.value / fresh.value);
    excesses.push_back(generated.copied - fresh.copied);
  }
  result.members.value_interval = interval_around(result.members.value, values);
  if (!result.floor) return;
  NearestFloor& floor = *result.floor;
  floor.members.value_interval = interval_around(floor.members.value, floors);
  floor.ratio_interval = interval_around(floor.ratio, ratios);
  floor.excess_interval = interval_around(floor.excess_copied, excesses);
}

void require_fit(const TrajectoryReader& file, const TrajectoryReader& training) {
  const TrajectoryInfo& f = file.info();
  const TrajectoryInfo& k = training.info();
  require(f.state_shape == k.state_shape, "{}: states {} do not fit the {} of {}", file.path(),
          fmt::join(f.state_shape, " x "), fmt::join(k.state_shape, " x "), training.path());
  require(std::abs(f.dt - k.dt) <= 1e-6 * std::abs(k.dt),
          "{}: time step {} does not fit the {} of {}", file.path(), f.dt, k.dt, training.path());
}

json neighbours_to_json(const Neighbours& n) {
  return {{"nearest", n.nearest},
          {"distance", n.distance},
          {"neighbour_distance", n.neighbour_distance}};
}

}  // namespace

json NearestNeighbours::to_json() const {
  json result = {{"training", training},
                 {"training_members", training_members},
                 {"steps", steps},
                 {"value", members.value},
                 {"interval", members.value_interval},
                 {"copied", members.copied},
                 {"members", neighbours_to_json(members)}};
  if (floor) {
    result["fresh_truth"] = floor->fresh_truth;
    result["floor"] = floor->members.value;
    result["floor_interval"] = floor->members.value_interval;
    result["ratio"] = floor->ratio;
    result["ratio_interval"] = floor->ratio_interval;
    result["copied_floor"] = floor->members.copied;
    result["excess_interval"] = floor->excess_interval;
    result["memorising"] = floor->memorising();
    result["fresh_members"] = neighbours_to_json(floor->members);
  }
  return result;
}

DistanceBlocks cut_distances(std::int64_t rows, std::int64_t columns, std::int64_t states,
                             std::int64_t state_size, std::int64_t bytes) {
  constexpr std::int64_t kPiece = 16384;  // float32 values read of a trajectory at a time
  DistanceBlocks cut;
  cut.states = std::clamp<std::int64_t>(kPiece / state_size, 1, states);
  const std::int64_t width = cut.states * state_size;
  // As many as fit beside `others`: 4 width (n + others) + 8 n others <= bytes.
  const auto fitting = [&](std::int64_t others) {
    return std::max<std::int64_t>((bytes - 4 * width * others) / (4 * width + 8 * others), 1);
  };
  // A square block reads the files least often; a side that is shorter leaves room to the other.
  const auto w = static_cast<double>(width);
  const auto side =
      static_cast<std::int64_t>((std::sqrt(w * w + 0.5 * static_cast<double>(bytes)) - w) / 2);
  cut.rows = std::clamp<std::int64_t>(side, 1, rows);
  cut.columns = std::min(fitting(cut.rows), columns);
  cut.rows = std::min(fitting(cut.columns), rows);
  return cut;
}

NearestNeighbours nearest_neighbours(const TrajectoryReader& generated,
                                     const TrajectoryReader& training,
                                     const TrajectoryReader* fresh_truth,
                                     const NearestOptions& options) {
  NearestNeighbours result;
  result.generated = generated.path();
  result.training = training.path();
  result.training_members =
      options.training_members > 0 ? options.training_members : training.info().members;
  require(result.training_members >= 2 && result.training_members <= training.info().members,
          "{}: training trajectories to compare with must be 2 to {}, got {}", training.path(),
          training.info().members, result.training_members);
  require(options.max_members >= 1 && options.bootstrap >= 2,
          "nearest neighbours: at least 1 member and 2 replicates are needed, got {} and {}",
          options.max_members, options.bootstrap);
  require_fit(generated, training);
  if (fresh_truth != nullptr) require_fit(*fresh_truth, training);
  const auto stored = {generated.info().steps, training.info().steps,
                       (fresh_truth != nullptr ? *fresh_truth : training).info().steps};
  result.steps = std::min(stored) - 1;
  require(result.steps >= 1, "{}: at least 2 stored states are needed in all files, got {}",
          generated.path(), result.steps + 1);
  if (std::max(stored) != std::min(stored)) {
    spdlog::warn("nearest neighbours: comparing the first {} states, which all files have",
                 result.steps + 1);
  }

  const auto kept = [&](const TrajectoryReader& file) {
    return std::min(file.info().members, options.max_members);
  };
  const Members candidates = first_members(training, result.training_members);
  Members queries = first_members(generated, kept(generated));
  const std::size_t generated_members = queries.size();
  if (fresh_truth != nullptr) {
    const Members fresh = first_members(*fresh_truth, kept(*fresh_truth));
    queries.insert(queries.end(), fresh.begin(), fresh.end());
  }
  const std::vector<Nearest> nearest =
      find_nearest(queries, candidates, {}, result.steps, options, "nearest neighbours");
  // Every training trajectory that is nearest to some query, once, and its own neighbour.
  std::vector<std::size_t> hit;
  for (const Nearest& n : nearest) hit.push_back(n.candidate);
  std::sort(hit.begin(), hit.end());
  hit.erase(std::unique(hit.begin(), hit.end()), hit.end());
  Members hit_members;
  for (const std::size_t candidate : hit) hit_members.push_back(candidates[candidate]);
  const std::vector<Nearest> beyond =
      find_nearest(hit_members, candidates, hit, result.steps, options, "their neighbours");

  const auto values = static_cast<double>(result.steps * training.info().state_size());
  const auto neighbours = [&](std::size_t first, std::size_t last) {
    Neighbours n;
    for (std::size_t i = first; i < last; ++i) {
      const auto at = std::lower_bound(hit.begin(), hit.end(), nearest[i].candidate) - hit.begin();
      n.nearest.push_back(candidates[nearest[i].candidate].index);
      n.distance.push_back(std::sqrt(nearest[i].squared_distance / values));
      n.neighbour_distance.push_back(
          std::sqrt(beyond[static_cast<std::size_t>(at)].squared_distance / values));
    }
    const ValueAndShare all = weigh(n, std::vector<float>(n.nearest.size(), 1));
    require(std::isfinite(all.value), "{}: every trajectory found nearest is there twice",
            training.path());
    n.value = all.value;
    n.copied = all.copied;
    return n;
  };
  result.members = neighbours(0, generated_members);
  if (fresh_truth != nullptr) {
    NearestFloor floor;
    floor.fresh_truth = fresh_truth->path();
    floor.members = neighbours(generated_members, queries.size());
    const auto known =
        std::count(floor.members.distance.begin(), floor.members.distance.end(), 0.0);
    require(2 * known < std::ssize(floor.members.distance),
            "{}: {} of {} trajectories are in {} too; the floor needs others", floor.fresh_truth,
            known, floor.members.distance.size(), training.path());
    floor.ratio = result.members.value / floor.members.value;
    floor.excess_copied = result.members.copied - floor.members.copied;
    result.floor = std::move(floor);
  }
  set_intervals(result, options.bootstrap);
  return result;
}

}  // namespace slift
