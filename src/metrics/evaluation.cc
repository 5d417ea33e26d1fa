#include "metrics/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/errors.h"
#include "core/log.h"
#include "core/parallel.h"
#include "metrics/quantiles.h"
#include "metrics/scores.h"

namespace slift {

using nlohmann::json;

namespace {

constexpr std::int64_t kShownComponents = 8;  // of vectors, in quantile tables
constexpr std::int64_t kSpectrumTimes = 4;
constexpr std::int64_t kMaxGroups = 256;
constexpr std::int64_t kQuantileBytes = 256 << 20;  // of each side's records, for quantiles

// What both files are compared by: the plan of whichever holds records, else one for their states.
RecordPlan common_plan(const TrajectoryReader& generated, const TrajectoryReader& truth,
                       const std::vector<Quantity>& extra) {
  for (const TrajectoryReader* file : {&generated, &truth}) {
    if (file->info().record.empty()) continue;
    const RecordPlan plan = plan_of_records(*file);
    for (const Quantity& quantity : extra) {
      const bool recorded =
          std::any_of(plan.quantities.begin(), plan.quantities.end(),
                      [&](const Quantity& q) { return to_json({q}) == to_json({quantity}); });
      require(recorded, "{}: quantity {} was not recorded; give it to `slift rollout` too",
              file->path(), quantity.name);
    }
    return plan;
  }
  return plan_record(truth.info(), extra);
}

std::vector<std::int64_t> shape_of_states(const TrajectoryReader& file) {
  return file.info().record.empty() ? file.info().state_shape : plan_of_records(file).state_shape;
}

void require_comparable(const TrajectoryReader& generated, const TrajectoryReader& truth) {
  const TrajectoryInfo &g = generated.info(), &k = truth.info();
  require(shape_of_states(generated) == shape_of_states(truth),
          "{}: states {} do not fit the {} of {}", generated.path(),
          fmt::join(shape_of_states(generated), " x "), fmt::join(shape_of_states(truth), " x "),
          truth.path());
  require(std::abs(g.dt - k.dt) <= 1e-6 * std::abs(k.dt),
          "{}: time step {} does not fit the {} of {}", generated.path(), g.dt, k.dt, truth.path());
  require(k.members >= 4, "{}: at least 4 trajectories are needed to split the truth, got {}",
          truth.path(), k.members);
  require(g.members >= 2, "{}: at least 2 members are needed, got {}", generated.path(), g.members);
  require(std::min(g.steps, k.steps) >= 2, "{}: at least 2 stored states are needed, got {}",
          generated.path(), std::min(g.steps, k.steps));
}

// How many states of each are compared.
std::int64_t compared_steps(const TrajectoryReader& generated, const TrajectoryReader& truth,
                            std::int64_t most) {
  const std::int64_t g = generated.info().steps, k = truth.info().steps;
  const std::int64_t steps = std::min({g, k, most > 0 ? most : g});
  if (g != steps || k != steps) {
    spdlog::warn("{} has {} steps, {} has {}: comparing the first {}", generated.path(), g,
                 truth.path(), k, steps);
  }
  return steps;
}

// The starts of which a file has all branches: numbers first .. end - 1.
struct WholeStarts {
  std::int64_t first, end;
};

WholeStarts whole_starts(const TrajectoryInfo& info) {
  return {(info.first_member + info.branches - 1) / info.branches,
          (info.first_member + info.members) / info.branches};
}

// Groups of members with a common start; none unless the generated file has branches.
std::vector<Group> branch_groups(const TrajectoryInfo& generated, const TrajectoryInfo& truth) {
  std::vector<Group> groups;
  if (generated.branches < 2) return groups;
  // As many generated as half the true ones, so that the floor compares sets of the same size; a
  // single true branch verifies all generated ones.
  const std::int64_t size =
      truth.branches < 4 ? generated.branches : std::min(generated.branches, truth.branches / 2);
  const WholeStarts g = whole_starts(generated), k = whole_starts(truth);
  const std::int64_t first = std::max(g.first, k.first);
  for (std::int64_t s = first; s < std::min({g.end, k.end, first + kMaxGroups}); ++s) {
    groups.push_back({s * generated.branches - generated.first_member, size,
                      s * truth.branches - truth.first_member, truth.branches < 4 ? 1 : 2 * size});
  }
  return groups;
}

std::int64_t members_of(const std::vector<Group>& groups, bool generated) {
  if (groups.empty()) return 0;
  const Group& last = groups.back();
  return generated ? last.first_generated + last.generated : last.first_truth + last.truth;
}

// Whether all members of every group begin with the same state, up to rounding.
bool have_common_starts(const Ensemble& generated, const Ensemble& truth,
                        const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    for (std::int64_t c = 0; c < truth.plan.first_mean(); ++c) {
      const std::vector<float> known = truth.column(0, c, group.first_truth, group.truth);
      const auto is_there = [&](float v) {
        return std::abs(v - known[0]) <= 1e-4f * (1 + std::abs(known[0]));
      };
      const std::vector<float> begun =
          generated.column(0, c, group.first_generated, group.generated);
      if (!std::all_of(known.begin(), known.end(), is_there) ||
          !std::all_of(begun.begin(), begun.end(), is_there)) {
        return false;
      }
    }
  }
  return true;
}

std::vector<std::int64_t> range(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> values(index(end - first));
  std::iota(values.begin(), values.end(), first);
  return values;
}

Score named(Score score, const std::string& name) {
  score.name = name;
  return score;
}

std::vector<Score> distances(const Comparison& c, const EvaluateOptions& options) {
  const RecordPlan& plan = c.plan();
  std::vector<Score> scores;
  if (plan.of_vectors()) scores.push_back(sliced_w2_score(c, options.directions));
  for (std::int64_t q = 0; q < plan.first_cell(); ++q) {
    const Quantity& quantity = plan.quantities[index(q)];
    scores.push_back(named(w2_score(c, q), quantity.name));
    if (quantity.has_crossing()) scores.push_back(named(crossing_score(c, q), quantity.name));
  }
  return scores;
}

std::vector<Score> skill(const Comparison& c) {
  const RecordPlan& plan = c.plan();
  std::vector<Score> scores;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& columns) {
    scores.push_back(named(crps_score(c, columns), name));
    scores.push_back(named(spread_skill_score(c, columns), name));
    scores.push_back(named(rank_score(c, columns), name));
  };
  add("state", range(plan.first_cell(), plan.first_mean()));
  for (std::int64_t q = 0; q < plan.first_cell(); ++q) {
    add(plan.quantities[index(q)].name, {q});
  }
  return scores;
}

Table quantile_rows(const Ensemble& ensemble, std::int64_t column) {
  Table rows(index(ensemble.steps));
  parallel_for(ensemble.steps, [&](std::int64_t t) {
    std::vector<float> values = ensemble.column(t, column, 0, ensemble.members);
    std::sort(values.begin(), values.end());
    rows[index(t)] = quantiles(values, kQuantileLevels);
  });
  return rows;
}

std::vector<QuantileTable> quantile_tables(const Ensemble& generated, const Ensemble& truth) {
  const RecordPlan& plan = truth.plan;
  std::vector<QuantileTable> tables;
  for (std::int64_t q = 0; q < plan.first_cell(); ++q) {
    tables.push_back(
        {plan.quantities[index(q)].name, quantile_rows(generated, q), quantile_rows(truth, q)});
  }
  if (!plan.of_vectors()) return tables;
  for (std::int64_t c = 0; c < std::min(plan.channels(), kShownComponents); ++c) {
    tables.push_back({plan.fields[index(c)], quantile_rows(generated, plan.first_cell() + c),
                      quantile_rows(truth, plan.first_cell() + c)});
  }
  return tables;
}

std::vector<SpectrumTable> spectrum_tables(const Ensemble& generated, const Ensemble& truth,
                                           std::int64_t steps) {
  const RecordPlan& plan = truth.plan;
  const auto rows = [&](const Ensemble& ensemble, std::int64_t step, std::int64_t channel) {
    std::vector<double> mean;
    for (std::int64_t k = 0; k < plan.wave_numbers; ++k) {
      const std::int64_t column = plan.first_amplitude() + channel * plan.wave_numbers + k;
      const auto amplitudes = ensemble.column(step, column, 0, ensemble.members);
      double energy = 0;
      for (const double a : amplitudes) energy += a * a;
      mean.push_back(energy / static_cast<double>(amplitudes.size()));
    }
    return mean;
  };
  std::vector<SpectrumTable> tables;
  const std::int64_t times = std::min(kSpectrumTimes, steps - 1);
  for (std::int64_t c = 0; plan.wave_numbers > 0 && c < plan.channels(); ++c) {
    SpectrumTable table{plan.fields[index(c)], {}, {}, {}};
    for (std::int64_t i = 1; i <= times; ++i) {
      const std::int64_t step = i * (steps - 1) / times;
      table.time.push_back(static_cast<double>(step) / static_cast<double>(steps - 1));
      table.generated.push_back(rows(generated, step, c));
      table.truth.push_back(rows(truth, step, c));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

json list_of(const std::vector<Score>& scores) {
  json list = json::array();
  for (const Score& score : scores) list.push_back(score.to_json());
  return list;
}

}  // namespace

const Score* Evaluation::find(const std::string& metric, const std::string& name) const {
  for (const Score& score : scores) {
    if (score.metric == metric && (name.empty() || score.name == name)) return &score;
  }
  return nullptr;
}

json Evaluation::to_json() const {
  json result = {{"format", "slift-evaluation"},
                 {"version", 2},
                 {"system", system},
                 {"generated", generated},
                 {"truth", truth},
                 {"members", members},
                 {"cuts", cuts},
                 {"bootstrap", bootstrap},
                 {"scores", list_of(scores)},
                 {"moments",
                  {{"time", time},
                   {"fields", fields},
                   {"generated_members", generated_members},
                   {"truth_members", truth_members},
                   {"truth", {{"mean", truth_mean}, {"std", truth_std}}},
                   {"generated", {{"mean", generated_mean}, {"std", generated_std}}}}}};
  if (branch_groups > 0) {
    result["conditional"] = {{"groups", branch_groups}, {"scores", list_of(conditional)}};
  }
  if (!quantiles.empty()) {
    json tables = json::array();
    for (const QuantileTable& q : quantiles) {
      tables.push_back({{"name", q.name}, {"generated", q.generated}, {"truth", q.truth}});
    }
    result["quantiles"] = {{"levels", kQuantileLevels},
                           {"time", time},
                           {"generated_members", generated_quantile_members},
                           {"truth_members", truth_quantile_members},
                           {"tables", tables}};
  }
  if (!spectra.empty()) {
    result["spectra"] = json::array();
    for (const SpectrumTable& s : spectra) {
      result["spectra"].push_back(
          {{"field", s.field}, {"time", s.time}, {"generated", s.generated}, {"truth", s.truth}});
    }
  }
  return result;
}

Evaluation evaluate(const TrajectoryReader& generated, const TrajectoryReader& truth,
                    const EvaluateOptions& options) {
  require_comparable(generated, truth);
  const TrajectoryInfo &g = generated.info(), &k = truth.info();
  const RecordPlan plan = common_plan(generated, truth, options.quantities);
  Evaluation e;
  e.generated = generated.path();
  e.truth = truth.path();
  e.system = k.system;
  e.members = std::min({g.members, k.members / 2, options.max_members});
  e.cuts = options.cuts;
  e.bootstrap = options.bootstrap;
  e.generated_members = g.members;
  e.truth_members = k.members;
  e.fields = plan.fields;

  const std::vector<Group> groups = branch_groups(g, k);
  const std::int64_t steps = compared_steps(generated, truth, options.max_steps);
  const std::int64_t fit = kQuantileBytes / (steps * plan.width() * 4);
  const Ensemble from_truth = read_ensemble(
      truth, plan, steps, std::max({2 * e.members, members_of(groups, false), fit}), "truth");
  const Ensemble from_model = read_ensemble(
      generated, plan, steps, std::max({e.members, members_of(groups, true), fit}), "generated");
  e.truth_mean = from_truth.mean;
  e.truth_std = from_truth.std;
  e.generated_mean = from_model.mean;
  e.generated_std = from_model.std;

  const Comparison all(from_model, from_truth, {{0, e.members, 0, 2 * e.members}}, options.cuts,
                       options.bootstrap);
  for (std::int64_t t = 0; t < steps; ++t) e.time.push_back(all.time(t));
  e.scores = distances(all, options);
  if (options.exact_points > 0 && plan.of_vectors()) {
    e.scores.push_back(exact_w2_score(all, options.exact_points, options.exact_times));
  }
  if (!options.distances_only) {
    for (Score& score : skill(all)) e.scores.push_back(std::move(score));
    if (plan.wave_numbers > 0) e.scores.push_back(spectrum_score(all));
    e.quantiles = quantile_tables(from_model, from_truth);
    e.generated_quantile_members = from_model.members;
    e.truth_quantile_members = from_truth.members;
    e.spectra = spectrum_tables(from_model, from_truth, steps);
  }
  if (!groups.empty() && !have_common_starts(from_model, from_truth, groups)) {
    spdlog::warn("{} has branches, but not from the states {} starts from: no scores by start",
                 generated.path(), truth.path());
  } else if (!groups.empty()) {
    const Comparison branches(from_model, from_truth, groups, options.cuts, options.bootstrap);
    e.branch_groups = std::ssize(groups);
    if (groups.front().truth > 1) e.conditional = distances(branches, options);
    for (Score& score : skill(branches)) e.conditional.push_back(std::move(score));
  }
  return e;
}

}  // namespace slift
