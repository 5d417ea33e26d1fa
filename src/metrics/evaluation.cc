#include "metrics/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/errors.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/progress.h"
#include "core/random.h"
#include "data/normaliser.h"
#include "metrics/crossing.h"
#include "metrics/wasserstein.h"

namespace slift {

using nlohmann::json;

namespace {

using Table = std::vector<std::vector<double>>;

constexpr std::int64_t kBootstrapDirections = 8;

// What distances are computed on, kept in memory: [step][member, width].
struct Features {
  std::int64_t width = 0;
  std::vector<std::vector<float>> at_step;

  std::span<const float> slice(std::int64_t step, std::int64_t first, std::int64_t count) const {
    return std::span(at_step[static_cast<std::size_t>(step)])
        .subspan(static_cast<std::size_t>(first * width), static_cast<std::size_t>(count * width));
  }
};

// One pass over a file: features and crossing times of the first `kept` members, moments of all.
struct Summary {
  Features features;
  std::vector<std::optional<double>> crossings;  // empty without a rule
  Table mean, std;
};

Summary summarise(const TrajectoryReader& reader, std::int64_t steps, std::int64_t kept,
                  const std::optional<CrossingRule>& rule, const char* label) {
  const TrajectoryInfo& info = reader.info();
  TrajectoryInfo compared = info;
  compared.steps = steps;
  const std::int64_t channels = info.channels(), size = info.state_size(), cells = size / channels;
  const auto count_of = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  Summary s;
  s.features.width = info.is_vector() ? size : 1;
  s.features.at_step.assign(count_of(steps), std::vector<float>(count_of(kept * s.features.width)));
  Table sum(count_of(steps), std::vector<double>(count_of(channels), 0)), squares = sum;
  Progress progress(label, "traj", info.members);
  for_each_chunk(reader, info.members, [&](auto first, auto count, std::span<const float> x) {
    require_finite(x, info, first, reader.path());
    for (std::int64_t m = 0; m < count; ++m) {
      if (rule && first + m < kept) {
        s.crossings.push_back(first_crossing(
            x.subspan(count_of(m * info.trajectory_size()), count_of(steps * info.state_size())),
            compared, *rule));
      }
      for (std::int64_t t = 0; t < steps; ++t) {
        const float* state = x.data() + (m * info.steps + t) * size;
        double magnitude = 0;
        for (std::int64_t c = 0; c < channels; ++c) {
          double total = 0, square = 0;
          for (std::int64_t i = c * cells; i < (c + 1) * cells; ++i) {
            const double v = state[i];
            total += v;
            square += v * v;
            magnitude += std::abs(v);
          }
          sum[count_of(t)][count_of(c)] += total;
          squares[count_of(t)][count_of(c)] += square;
        }
        if (first + m >= kept) continue;
        float* to = s.features.at_step[count_of(t)].data() + (first + m) * s.features.width;
        if (info.is_vector()) {
          std::copy_n(state, size, to);
        } else {
          *to = static_cast<float>(magnitude / static_cast<double>(size));
        }
      }
    }
    progress.update(first + count);
  });
  const double n = static_cast<double>(info.members * cells);
  s.mean = sum, s.std = sum;
  for (std::size_t t = 0; t < sum.size(); ++t) {
    for (std::size_t c = 0; c < sum[t].size(); ++c) {
      s.mean[t][c] = sum[t][c] / n;
      s.std[t][c] = std::sqrt(std::max(0.0, squares[t][c] / n - s.mean[t][c] * s.mean[t][c]));
    }
  }
  return s;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// The two sides of every comparison, and the set for the floor.
struct Sets {
  const Features& generated;
  const Features& truth;
  std::int64_t n, steps;

  std::span<const float> ensemble(std::int64_t t) const { return generated.slice(t, 0, n); }
  std::span<const float> reference(std::int64_t t) const { return truth.slice(t, 0, n); }
  std::span<const float> second_truth(std::int64_t t) const { return truth.slice(t, n, n); }
  std::span<const float> both_halves(std::int64_t t) const { return truth.slice(t, 0, 2 * n); }
  double time(std::int64_t t) const {
    return static_cast<double>(t) / static_cast<double>(steps - 1);
  }
};

void finish(DistanceOverTime& d) {
  d.mean = mean_of(d.value);
  d.floor_mean = mean_of(d.floor);
}

// in_first[cut][member]: whether a truth member is in the first half. The first cut is the order of
// the file.
std::vector<std::vector<char>> cut_truth(std::int64_t n, std::int64_t cuts) {
  std::vector<std::vector<char>> in_first;
  for (std::int64_t cut = 0; cut < cuts; ++cut) {
    const Permutation shuffle(0, static_cast<std::uint64_t>(cut),
                              static_cast<std::uint64_t>(2 * n));
    std::vector<char> first(static_cast<std::size_t>(2 * n), 0);
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) {
      first[cut == 0 ? i : shuffle(i)] = 1;
    }
    in_first.push_back(std::move(first));
  }
  return in_first;
}

// Step 0 is given, not generated; the mean is over steps 1, 2, ... Each projection is sorted once;
// a cut deals the sorted truth out to its two halves.
DistanceOverTime sliced_over_time(const Sets& sets, const EvaluateOptions& options) {
  const std::int64_t dim = sets.truth.width;
  const auto width = static_cast<std::size_t>(dim);
  const auto directions = slicing_directions(dim, options.directions);
  const std::size_t direction_count = directions.size() / width;
  const auto in_first = cut_truth(sets.n, options.cuts);
  const auto n = static_cast<std::size_t>(sets.steps - 1);
  DistanceOverTime d{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), 0, 0};
  parallel_for(sets.steps - 1, [&](std::int64_t i) {
    const std::int64_t t = i + 1;
    std::vector<double> value(in_first.size(), 0), floor(in_first.size(), 0);
    std::vector<float> half[2] = {std::vector<float>(static_cast<std::size_t>(sets.n)),
                                  std::vector<float>(static_cast<std::size_t>(sets.n))};
    std::vector<std::int32_t> order;
    for (std::size_t k = 0; k < direction_count; ++k) {
      const auto direction = std::span(directions).subspan(k * width, width);
      const auto ensemble = sorted_projection(sets.ensemble(t), dim, direction);
      const auto truth = sorted_projection(sets.both_halves(t), dim, direction, &order);
      for (std::size_t cut = 0; cut < in_first.size(); ++cut) {
        std::size_t filled[2] = {0, 0};
        for (std::size_t j = 0; j < truth.size(); ++j) {
          const int side = in_first[cut][static_cast<std::size_t>(order[j])] != 0 ? 0 : 1;
          half[side][filled[side]++] = truth[j];
        }
        value[cut] += w2_squared_sorted(ensemble, half[0]);
        floor[cut] += w2_squared_sorted(half[1], half[0]);
      }
    }
    const auto mean_root = [&](const std::vector<double>& sums) {
      double total = 0;
      for (const double sum : sums) total += std::sqrt(sum / static_cast<double>(direction_count));
      return total / static_cast<double>(sums.size());
    };
    const auto at = static_cast<std::size_t>(i);
    d.time[at] = sets.time(t);
    d.value[at] = mean_root(value);
    d.floor[at] = mean_root(floor);
  });
  finish(d);
  return d;
}

// As sliced_over_time, for one number per member.
CrossingDistance crossing_distance(const std::vector<std::optional<double>>& generated,
                                   const std::vector<std::optional<double>>& truth,
                                   std::int64_t cuts) {
  const auto sorted = [](const auto& times, const auto& keep) {
    std::vector<float> kept;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (keep(i)) kept.push_back(static_cast<float>(times[i].value_or(1)));
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  };
  const auto share_never = [](const auto& times) {
    return static_cast<double>(std::count(times.begin(), times.end(), std::nullopt)) /
           static_cast<double>(times.size());
  };
  CrossingDistance d;
  d.never_generated = share_never(generated);
  d.never_truth = share_never(truth);
  const auto ensemble = sorted(generated, [](std::size_t) { return true; });
  for (const auto& in_first : cut_truth(static_cast<std::int64_t>(truth.size() / 2), cuts)) {
    const auto first = sorted(truth, [&](std::size_t i) { return in_first[i] != 0; });
    const auto second = sorted(truth, [&](std::size_t i) { return in_first[i] == 0; });
    d.value += std::sqrt(w2_squared_sorted(ensemble, first)) / static_cast<double>(cuts);
    d.floor += std::sqrt(w2_squared_sorted(second, first)) / static_cast<double>(cuts);
  }
  return d;
}

DistanceOverTime exact_over_time(const Sets& sets, std::int64_t points, std::int64_t times) {
  const std::int64_t dim = sets.truth.width;
  const auto part = static_cast<std::size_t>(points * dim);
  times = std::min(times, sets.steps - 1);
  const auto n = static_cast<std::size_t>(times);
  DistanceOverTime d{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), 0, 0};
  parallel_for(2 * times, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i / 2);
    const std::int64_t t = (i / 2 + 1) * (sets.steps - 1) / times;
    const auto reference = sets.reference(t).first(part);
    if (i % 2 == 0) {
      d.time[at] = sets.time(t);
      d.value[at] = exact_w2(sets.ensemble(t).first(part), reference, dim);
    } else {
      d.floor[at] = exact_w2(sets.second_truth(t).first(part), reference, dim);
    }
  });
  finish(d);
  return d;
}

// Bootstrap over members, on a few directions. Each projection is sorted once; a replicate only
// changes the weights of its points.
void add_intervals(Evaluation& e, const Sets& sets, std::int64_t replicates) {
  const std::int64_t dim = sets.truth.width;
  const auto width = static_cast<std::size_t>(dim);
  const auto directions = slicing_directions(dim, kBootstrapDirections);
  const std::size_t direction_count = directions.size() / width;
  const auto count = static_cast<std::size_t>(replicates);
  std::vector<std::vector<float>> counts[3];
  for (std::uint64_t set = 0; set < 3; ++set) {
    for (std::size_t r = 0; r < count; ++r) {
      counts[set].push_back(resample_counts(sets.n, set, static_cast<std::uint32_t>(r)));
    }
  }
  std::vector<std::vector<double>> value(static_cast<std::size_t>(sets.steps - 1),
                                         std::vector<double>(count, 0));
  auto floor = value;
  parallel_for(sets.steps - 1, [&](std::int64_t i) {
    const std::int64_t t = i + 1;
    auto& values = value[static_cast<std::size_t>(i)];
    auto& floors = floor[static_cast<std::size_t>(i)];
    const std::span<const float> points[3] = {sets.reference(t), sets.ensemble(t),
                                              sets.second_truth(t)};
    for (std::size_t k = 0; k < direction_count; ++k) {
      std::vector<float> sorted[3], weights[3];
      std::vector<std::int32_t> order[3];
      for (int set = 0; set < 3; ++set) {
        sorted[set] = sorted_projection(
            points[set], dim, std::span(directions).subspan(k * width, width), &order[set]);
        weights[set].resize(sorted[set].size());
      }
      for (std::size_t r = 0; r < count; ++r) {
        for (int set = 0; set < 3; ++set) {
          for (std::size_t j = 0; j < order[set].size(); ++j) {
            weights[set][j] = counts[set][r][static_cast<std::size_t>(order[set][j])];
          }
        }
        values[r] += w2_squared_sorted(sorted[1], weights[1], sorted[0], weights[0]);
        floors[r] += w2_squared_sorted(sorted[2], weights[2], sorted[0], weights[0]);
      }
    }
    for (std::size_t r = 0; r < count; ++r) {
      values[r] = std::sqrt(values[r] / static_cast<double>(direction_count));
      floors[r] = std::sqrt(floors[r] / static_cast<double>(direction_count));
    }
  });
  std::vector<double> value_means(count, 0), floor_means(count, 0), ratios(count);
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      value_means[r] += value[i][r] / static_cast<double>(value.size());
      floor_means[r] += floor[i][r] / static_cast<double>(value.size());
    }
    ratios[r] = value_means[r] / floor_means[r];
  }
  e.has_intervals = true;
  e.mean_interval = interval_around(e.sliced.mean, value_means);
  e.floor_interval = interval_around(e.sliced.floor_mean, floor_means);
  e.ratio_interval = interval_around(e.sliced.ratio(), ratios);
}

json distance_to_json(const DistanceOverTime& d) {
  return {{"value", d.mean},
          {"floor", d.floor_mean},
          {"ratio", d.ratio()},
          {"over_time", {{"time", d.time}, {"value", d.value}, {"floor", d.floor}}}};
}

}  // namespace

json Evaluation::to_json() const {
  json result = {{"format", "slift-evaluation"},
                 {"version", 1},
                 {"system", system},
                 {"generated", generated},
                 {"truth", truth},
                 {"members", members},
                 {"cuts", cuts},
                 {"quantity", quantity},
                 {"sliced_w2", distance_to_json(sliced)},
                 {"moments",
                  {{"time", time},
                   {"fields", fields},
                   {"generated_members", generated_members},
                   {"truth_members", truth_members},
                   {"truth", {{"mean", truth_mean}, {"std", truth_std}}},
                   {"generated", {{"mean", generated_mean}, {"std", generated_std}}}}}};
  if (has_intervals) {
    result["sliced_w2"]["interval"] = mean_interval;
    result["sliced_w2"]["floor_interval"] = floor_interval;
    result["sliced_w2"]["ratio_interval"] = ratio_interval;
  }
  if (crossing) {
    result["crossing"] = {{"value", crossing->value},
                          {"floor", crossing->floor},
                          {"ratio", crossing->ratio()},
                          {"never_generated", crossing->never_generated},
                          {"never_truth", crossing->never_truth}};
  }
  if (exact_points > 0) {
    result["exact_w2"] = distance_to_json(exact);
    result["exact_w2"]["points"] = exact_points;
  }
  return result;
}

Evaluation evaluate(const TrajectoryReader& generated, const TrajectoryReader& truth,
                    const EvaluateOptions& options) {
  const TrajectoryInfo& g = generated.info();
  const TrajectoryInfo& k = truth.info();
  require(g.state_shape == k.state_shape, "{}: states {} do not fit the {} of {}", generated.path(),
          fmt::join(g.state_shape, " x "), fmt::join(k.state_shape, " x "), truth.path());
  require(std::abs(g.dt - k.dt) <= 1e-6 * std::abs(k.dt),
          "{}: time step {} does not fit the {} of {}", generated.path(), g.dt, k.dt, truth.path());
  require(k.members >= 4, "{}: at least 4 trajectories are needed to split the truth, got {}",
          truth.path(), k.members);
  const std::int64_t steps = std::min(g.steps, k.steps);
  require(steps >= 2, "{}: at least 2 stored states are needed, got {}", generated.path(), steps);
  if (g.steps != k.steps) {
    spdlog::warn("{} has {} steps, {} has {}: comparing the first {}", generated.path(), g.steps,
                 truth.path(), k.steps, steps);
  }
  Evaluation e;
  e.generated = generated.path();
  e.truth = truth.path();
  e.system = k.system;
  e.members = std::min({g.members, k.members / 2, options.max_members});
  e.generated_members = g.members;
  e.truth_members = k.members;
  e.quantity = k.is_vector() ? "state" : "mean |x|";
  e.fields = k.fields;
  if (e.fields.empty()) {
    for (std::int64_t c = 0; c < k.channels(); ++c) e.fields.push_back(fmt::format("x{}", c + 1));
  }
  const auto rule = paper_crossing_rule(k);
  Summary from_truth = summarise(truth, steps, 2 * e.members, rule, "truth");
  Summary from_model = summarise(generated, steps, e.members, rule, "generated");
  e.truth_mean = std::move(from_truth.mean);
  e.truth_std = std::move(from_truth.std);
  e.generated_mean = std::move(from_model.mean);
  e.generated_std = std::move(from_model.std);

  const Sets sets{from_model.features, from_truth.features, e.members, steps};
  for (std::int64_t t = 0; t < steps; ++t) e.time.push_back(sets.time(t));
  e.cuts = options.cuts;
  e.sliced = sliced_over_time(sets, options);
  e.exact_points = std::min(options.exact_points, e.members);
  if (e.exact_points > 0) e.exact = exact_over_time(sets, e.exact_points, options.exact_times);
  if (rule) {
    e.crossing = crossing_distance(from_model.crossings, from_truth.crossings, options.cuts);
  }
  if (options.bootstrap > 1) add_intervals(e, sets, options.bootstrap);
  return e;
}

}  // namespace slift
