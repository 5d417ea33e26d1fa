#include "metrics/ensemble.h"

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "core/parallel.h"
#include "core/progress.h"
#include "data/normaliser.h"

namespace slift {
namespace {

// Sums over members of what the moments need: [step][channel].
struct MomentSums {
  Table means, squares, variances;

  MomentSums(std::int64_t steps, std::int64_t channels)
      : means(index(steps), std::vector<double>(index(channels), 0)),
        squares(means),
        variances(means) {}

  // A vector's component is its own mean; a field's channel also varies over its cells.
  void add(const RecordPlan& plan, std::int64_t step, std::span<const float> record) {
    for (std::int64_t c = 0; c < plan.channels(); ++c) {
      const double mean =
          record[index((plan.of_vectors() ? plan.first_cell() : plan.first_mean()) + c)];
      means[index(step)][index(c)] += mean;
      squares[index(step)][index(c)] += mean * mean;
      if (!plan.of_vectors()) {
        const double deviation = record[index(plan.first_deviation() + c)];
        variances[index(step)][index(c)] += deviation * deviation;
      }
    }
  }

  void finish(std::int64_t members, Ensemble& ensemble) const {
    const auto n = static_cast<double>(members);
    ensemble.mean = ensemble.std = means;
    for (std::size_t t = 0; t < means.size(); ++t) {
      for (std::size_t c = 0; c < means[t].size(); ++c) {
        const double mean = means[t][c] / n;
        const double between = squares[t][c] / n - mean * mean;
        ensemble.mean[t][c] = mean;
        ensemble.std[t][c] = std::sqrt(std::max(0.0, between + variances[t][c] / n));
      }
    }
  }
};

}  // namespace

std::vector<float> Ensemble::column(std::int64_t step, std::int64_t which, std::int64_t first,
                                    std::int64_t count) const {
  const std::vector<float>& table = at_step[index(step)];
  std::vector<float> values(index(count));
  for (std::int64_t m = 0; m < count; ++m) {
    values[index(m)] = table[index((first + m) * plan.width() + which)];
  }
  return values;
}

std::vector<float> Ensemble::series(std::int64_t member, std::int64_t which) const {
  std::vector<float> values(index(steps));
  for (std::int64_t t = 0; t < steps; ++t) {
    values[index(t)] = at_step[index(t)][index(member * plan.width() + which)];
  }
  return values;
}

Ensemble read_ensemble(const TrajectoryReader& reader, const RecordPlan& plan, std::int64_t steps,
                       std::int64_t keep, const std::string& label) {
  const TrajectoryInfo& info = reader.info();
  const bool recorded = !info.record.empty();
  require(!recorded || plan_of_records(reader) == plan,
          "{}: its records are not of the same quantities as those it is compared with",
          reader.path());
  const StateMap map = recorded ? keep_all(info) : record_map(plan, info);
  const std::int64_t size = info.state_size(), width = plan.width();
  Ensemble e;
  e.plan = plan;
  e.steps = steps;
  e.members = std::min(keep, info.members);
  e.all = info.members;
  e.branches = info.branches;
  e.at_step.assign(index(steps), std::vector<float>(index(e.members * width)));
  MomentSums sums(steps, plan.channels());
  Progress progress(label, "traj", info.members);
  for_each_chunk(reader, info.members, [&](auto first, auto count, std::span<const float> states) {
    require_finite(states, info, first, reader.path());
    parallel_for(steps, [&](std::int64_t t) {
      std::vector<float> record(index(width));
      for (std::int64_t m = 0; m < count; ++m) {
        map.apply(states.subspan(index((m * info.steps + t) * size), index(size)), record);
        sums.add(plan, t, record);
        if (first + m >= e.members) continue;
        std::copy(record.begin(), record.end(), e.at_step[index(t)].begin() + (first + m) * width);
      }
    });
    progress.update(first + count);
  });
  sums.finish(info.members, e);
  return e;
}

}  // namespace slift
