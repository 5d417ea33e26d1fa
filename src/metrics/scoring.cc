#include "metrics/scoring.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/interrupt.h"
#include "core/parallel.h"
#include "core/random.h"
#include "metrics/saturated.h"
#include "metrics/wasserstein.h"

namespace slift {

using nlohmann::json;

namespace {

// As many draws as `half` has members, of them, with replacement.
Draws resample(const Draws& half, std::uint64_t set, std::uint32_t replicate) {
  const auto counts = resample_counts(
      std::count_if(half.begin(), half.end(), [](auto n) { return n > 0; }), set, replicate);
  Draws draws(half.size(), 0);
  std::size_t member = 0;
  for (std::size_t i = 0; i < half.size(); ++i) {
    if (half[i] > 0) draws[i] = static_cast<std::int32_t>(counts[member++]);
  }
  return draws;
}

// The first half of cut number `cut` of n members; cut 0 is the order of the file.
Draws first_half(std::int64_t n, std::int64_t cut) {
  const Permutation shuffle(0, static_cast<std::uint64_t>(cut), static_cast<std::uint64_t>(n));
  Draws half(index(n), 0);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, n / 2); ++i) {
    half[cut == 0 ? index(i) : shuffle(static_cast<std::uint64_t>(i))] = 1;
  }
  return half;
}

Draws other_half(const Draws& half) {
  Draws other(half.size());
  std::transform(half.begin(), half.end(), other.begin(), [](auto drawn) { return 1 - drawn; });
  return other;
}

bool is_empty(const Draws& draws) {
  return std::all_of(draws.begin(), draws.end(), [](auto drawn) { return drawn == 0; });
}

double mean_of_finite(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double v : values) {
    if (std::isfinite(v)) sum += v, count += 1;
  }
  return count > 0 ? sum / count : kNaN;
}

// Of one kind of pairing.
std::vector<double> choose(const Comparison& comparison, const PairingValues& values,
                           bool generated, bool resampled) {
  std::vector<double> chosen;
  for (std::size_t p = 0; p < values.size(); ++p) {
    const Pairing& pairing = comparison.pairings()[p];
    if (pairing.generated == generated && pairing.resampled == resampled) {
      chosen.push_back(values[p]);
    }
  }
  return chosen;
}

std::optional<Interval> around(double estimate, const std::vector<double>& replicates) {
  std::vector<double> finite;
  std::copy_if(replicates.begin(), replicates.end(), std::back_inserter(finite),
               [](double v) { return std::isfinite(v); });
  if (finite.size() < 2 || !std::isfinite(estimate)) return std::nullopt;
  return interval_around(estimate, finite);
}

// JSON has no NaN.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }

}  // namespace

std::string Score::title() const {
  const std::string title = metric + " of " + name;
  if (metric == "W2" && name == "mean |x|") return title + " (WIM)";
  return metric == "W2 of crossing times" ? "W2 of crossing times (WCT), " + name : title;
}

json Score::to_json() const {
  json result = {{"name", name},
                 {"metric", metric},
                 {"value", number(value)},
                 {"floor", number(floor)},
                 {"ratio", number(ratio())}};
  if (interval) result["interval"] = *interval;
  if (floor_interval) result["floor_interval"] = *floor_interval;
  if (ratio_interval) result["ratio_interval"] = *ratio_interval;
  if (!time.empty()) {
    const auto list = [](const std::vector<double>& values) {
      json numbers = json::array();
      for (const double v : values) numbers.push_back(number(v));
      return numbers;
    };
    result["over_time"] = {
        {"time", time}, {"value", list(over_time)}, {"floor", list(floor_over_time)}};
  }
  result.update(details);
  return result;
}

Comparison::Comparison(const Ensemble& generated, const Ensemble& truth, std::vector<Group> groups,
                       std::int64_t cuts, std::int64_t replicates)
    : generated_(generated), truth_(truth), groups_(std::move(groups)) {
  const Draws all(index(groups_.front().generated), 1);
  const auto add = [&](bool resampled, const Draws& ensemble, const Draws& second,
                       const Draws& reference, const Draws& of_groups = {}) {
    pairings_.push_back({true, resampled, ensemble, reference, false, of_groups});
    if (is_empty(second)) return;
    pairings_.push_back({false, resampled, second, reference, true, of_groups});
  };
  for (std::int64_t cut = 0; cut < cuts; ++cut) {
    const Draws first = first_half(groups_.front().truth, cut);
    add(false, all, other_half(first), first);
  }
  cut_pairings_ = pairings_.size();
  const Draws first = first_half(groups_.front().truth, 0), second = other_half(first);
  for (std::int64_t r = 0; r < replicates; ++r) {
    const auto replicate = static_cast<std::uint32_t>(r);
    if (groups_.size() > 1) {
      // What varies from start to start is what one wants to know; and copies among the few members
      // of a group would look like a smaller spread.
      add(true, all, second, first, resample(Draws(groups_.size(), 1), 3, replicate));
    } else {
      add(true, resample(all, 1, replicate), resample(second, 2, replicate),
          resample(first, 0, replicate));
    }
  }
}

double Comparison::time(std::int64_t step) const {
  return static_cast<double>(step) / static_cast<double>(steps() - 1);
}

Score score_once(const Comparison& comparison, const PairingValues& values) {
  Score score;
  score.value = mean_of_finite(choose(comparison, values, true, false));
  score.floor = mean_of_finite(choose(comparison, values, false, false));
  const std::vector<double> replicates = choose(comparison, values, true, true);
  const std::vector<double> floors = choose(comparison, values, false, true);
  score.interval = around(score.value, replicates);
  score.floor_interval = around(score.floor, floors);
  std::vector<double> ratios;
  for (std::size_t r = 0; r < floors.size(); ++r) ratios.push_back(replicates[r] / floors[r]);
  score.ratio_interval = around(score.ratio(), ratios);
  return score;
}

Score score_over_time(const Comparison& comparison,
                      const std::function<PairingValues(std::int64_t step)>& at_step,
                      const std::function<PairingValues()>& of_all) {
  const std::int64_t steps = comparison.steps() - 1;
  std::vector<PairingValues> values(index(steps));
  parallel_for(steps, [&](std::int64_t i) {
    if (!interrupt_requested()) values[index(i)] = at_step(i + 1);
  });
  if (interrupt_requested()) throw Interrupted("evaluation stopped");
  PairingValues means;
  for (std::size_t p = 0; p < comparison.pairings().size(); ++p) {
    std::vector<double> series;
    for (const PairingValues& v : values) series.push_back(v[p]);
    means.push_back(mean_of_finite(series));
  }
  Score score = score_once(comparison, of_all ? of_all() : means);
  for (std::int64_t i = 0; i < steps; ++i) {
    const double value = mean_of_finite(choose(comparison, values[index(i)], true, false));
    if (!std::isfinite(value)) continue;
    score.time.push_back(comparison.time(i + 1));
    score.over_time.push_back(value);
    score.floor_over_time.push_back(
        mean_of_finite(choose(comparison, values[index(i)], false, false)));
  }
  return score;
}

SortedValues::Sorted::Sorted(std::span<const float> unsorted)
    : order(ascending_order(unsorted)), values(unsorted.size()) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = unsorted[index(order[i])];
}

void SortedValues::Sorted::draw(const Draws& draws, std::vector<float>& drawn) const {
  // Most values are drawn at most twice, which ones is random: they are written twice and counted
  // as often as they are drawn, for a branch would be mispredicted every other time.
  std::size_t end = 0, total = 0;
  for (const std::int32_t count : draws) total += index(count);
  drawn.resize(total + 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t count = index(draws[index(order[i])]);
    drawn[end] = drawn[end + 1] = values[i];
    for (std::size_t copy = 2; copy < count; ++copy) drawn[end + copy] = values[i];
    end += count;
  }
  drawn.resize(total);
}

SortedValues::SortedValues(std::span<const float> generated, std::span<const float> truth)
    : generated_(generated), truth_(truth) {}

SortedValues sorted_column(const Comparison& comparison, std::size_t which, std::int64_t step,
                           std::int64_t column, double scale) {
  const Group& group = comparison.groups()[which];
  std::vector<float> generated =
      comparison.generated().column(step, column, group.first_generated, group.generated);
  std::vector<float> truth =
      comparison.truth().column(step, column, group.first_truth, group.truth);
  for (auto* values : {&generated, &truth}) {
    for (float& v : *values) v = saturated(v * scale);
  }
  return {generated, truth};
}

}  // namespace slift
