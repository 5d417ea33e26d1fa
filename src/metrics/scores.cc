#include "metrics/scores.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "metrics/crps.h"
#include "metrics/radial_spectrum.h"
#include "metrics/rank_histogram.h"
#include "metrics/spread_skill.h"
#include "metrics/wasserstein.h"

namespace slift {
namespace {

constexpr std::int64_t kResampledDirections = 8;
constexpr int kExactReplicates = 20;
constexpr std::int64_t kRankBins = 20;
constexpr double kConstant = 1e-6;    // less, of the mean, is the rounding of float32
constexpr double kNegligible = 1e-3;  // of a column's overall deviation

PairingValues zeros(const Comparison& comparison) {
  return PairingValues(comparison.pairings().size(), 0.0);
}

// The vectors of one group at one step: [member, component].
std::vector<float> vectors_of(const Ensemble& ensemble, std::int64_t step, std::int64_t first,
                              std::int64_t count) {
  const RecordPlan& plan = ensemble.plan;
  const std::size_t dim = plan.cells.size();
  std::vector<float> points;
  points.reserve(index(count) * dim);
  for (std::int64_t m = first; m < first + count; ++m) {
    const float* record = ensemble.at_step[index(step)].data() + m * plan.width();
    points.insert(points.end(), record + plan.first_cell(),
                  record + plan.first_cell() + static_cast<std::ptrdiff_t>(dim));
  }
  return points;
}

// The first `count` drawn points; fewer if fewer are drawn.
std::vector<float> drawn_points(const std::vector<float>& points, std::size_t dim,
                                const Draws& draws, std::int64_t count) {
  std::vector<float> drawn;
  for (std::size_t m = 0; m < draws.size(); ++m) {
    for (int copy = 0; copy < draws[m] && drawn.size() < index(count) * dim; ++copy) {
      drawn.insert(drawn.end(), points.begin() + static_cast<std::ptrdiff_t>(m * dim),
                   points.begin() + static_cast<std::ptrdiff_t>((m + 1) * dim));
    }
  }
  return drawn;
}

// A score whose number for one group, step and column comes from two sorted samples.
template <typename Distance>
Score mean_over_columns(const Comparison& comparison, const std::vector<std::int64_t>& columns,
                        const Distance& distance) {
  const double parts = static_cast<double>(columns.size() * comparison.groups().size());
  return score_over_time(comparison, [&](std::int64_t step) {
    PairingValues values = zeros(comparison);
    for (std::size_t g = 0; g < comparison.groups().size(); ++g) {
      for (const std::int64_t column : columns) {
        sorted_column(comparison, g, step, column)
            .for_each(comparison.pairings(), g,
                      [&](std::size_t p, const auto& ensemble, const auto& reference) {
                        values[p] += comparison.pairings()[p].copies_of(g) *
                                     distance(ensemble, reference) / parts;
                      });
      }
    }
    return values;
  });
}

double w2(const std::vector<float>& a, const std::vector<float>& b) {
  return std::sqrt(w2_squared_sorted(a, b));
}

// Crossing times of one group's members, never counted as 1, and how many never cross.
std::vector<float> crossing_times(const Ensemble& ensemble, std::int64_t quantity,
                                  std::int64_t first, std::int64_t count, double& never) {
  std::vector<float> times;
  for (std::int64_t m = first; m < first + count; ++m) {
    const auto time =
        first_crossing(ensemble.plan.quantities[index(quantity)], ensemble.series(m, quantity));
    never += time ? 0 : 1;
    times.push_back(static_cast<float>(time.value_or(1)));
  }
  return times;
}

// Standard deviations of a column in the truth.
struct Deviations {
  double overall = 0;            // over members and steps after the first; 0 for a constant
  std::vector<double> at_steps;  // over members, at each step

  bool is_negligible_at(std::int64_t step) const {
    return overall == 0 || at_steps[index(step)] <= kNegligible * overall;
  }
};

Deviations deviations_of(const Comparison& comparison, std::int64_t column) {
  const Ensemble& truth = comparison.truth();
  const auto members = static_cast<double>(truth.members);
  std::vector<double> means(index(comparison.steps()), 0);
  double mean = 0;  // of the steps after the first
  for (std::int64_t t = 0; t < comparison.steps(); ++t) {
    for (const float v : truth.column(t, column, 0, truth.members)) means[index(t)] += v / members;
    if (t > 0) mean += means[index(t)] / static_cast<double>(comparison.steps() - 1);
  }
  Deviations result;
  double squares = 0;
  for (std::int64_t t = 0; t < comparison.steps(); ++t) {
    double of_step = 0;
    for (const float v : truth.column(t, column, 0, truth.members)) {
      of_step += (v - means[index(t)]) * (v - means[index(t)]) / members;
    }
    result.at_steps.push_back(std::sqrt(of_step));
    const double drift = means[index(t)] - mean;
    if (t > 0) squares += (of_step + drift * drift) / static_cast<double>(comparison.steps() - 1);
  }
  const double overall = std::sqrt(squares);
  result.overall = overall > kConstant * std::abs(mean) ? overall : 0;
  return result;
}

// The mean spectrum of the members drawn, of one channel.
std::vector<double> mean_spectrum(const Ensemble& ensemble, std::int64_t step, std::int64_t first,
                                  const Draws& draws, std::int64_t channel) {
  const RecordPlan& plan = ensemble.plan;
  std::vector<double> mean(index(plan.wave_numbers), 0);
  double members = 0;
  for (std::size_t m = 0; m < draws.size(); ++m) {
    if (draws[m] == 0) continue;
    const float* amplitudes = ensemble.at_step[index(step)].data() +
                              (first + static_cast<std::int64_t>(m)) * plan.width() +
                              plan.first_amplitude() + channel * plan.wave_numbers;
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += draws[m] * static_cast<double>(amplitudes[k]) * amplitudes[k];
    }
    members += draws[m];
  }
  for (double& energy : mean) energy /= members;
  return mean;
}

}  // namespace

Score sliced_w2_score(const Comparison& comparison, std::int64_t directions) {
  const auto dim = std::ssize(comparison.plan().cells);
  const std::vector<float> all = slicing_directions(dim, directions);
  const std::int64_t count = std::ssize(all) / dim;
  const std::int64_t stride = std::max<std::int64_t>(1, count / kResampledDirections);
  const auto groups = static_cast<double>(comparison.groups().size());
  Score score = score_over_time(comparison, [&](std::int64_t step) {
    PairingValues values = zeros(comparison);
    for (std::size_t g = 0; g < comparison.groups().size(); ++g) {
      const Group& group = comparison.groups()[g];
      const auto generated =
          vectors_of(comparison.generated(), step, group.first_generated, group.generated);
      const auto truth = vectors_of(comparison.truth(), step, group.first_truth, group.truth);
      PairingValues squares = zeros(comparison), used = squares;
      for (std::int64_t k = 0; k < count; ++k) {
        const auto direction = std::span(all).subspan(index(k * dim), index(dim));
        const SortedValues sorted(project(generated, dim, direction),
                                  project(truth, dim, direction));
        sorted.for_each(k % stride == 0 ? std::span(comparison.pairings()) : comparison.cuts(), g,
                        [&](std::size_t p, const auto& ensemble, const auto& reference) {
                          squares[p] += w2_squared_sorted(ensemble, reference);
                          used[p] += 1;
                        });
      }
      for (std::size_t p = 0; p < values.size(); ++p) {
        if (used[p] == 0) continue;
        values[p] +=
            comparison.pairings()[p].copies_of(g) * std::sqrt(squares[p] / used[p]) / groups;
      }
    }
    return values;
  });
  score.name = "state";
  score.metric = "sliced W2";
  return score;
}

Score exact_w2_score(const Comparison& comparison, std::int64_t points, std::int64_t times) {
  const auto dim = comparison.plan().cells.size();
  const Group& group = comparison.groups().front();
  points = std::min({points, group.generated, group.truth / 2});
  const std::int64_t steps = comparison.steps() - 1;
  times = std::min(times, steps);
  std::vector<char> chosen(index(steps + 1), 0);
  for (std::int64_t i = 1; i <= times; ++i) chosen[index(i * steps / times)] = 1;
  Score score = score_over_time(comparison, [&](std::int64_t step) {
    PairingValues values(comparison.pairings().size(), kNaN);
    if (chosen[index(step)] == 0) return values;
    const auto generated =
        vectors_of(comparison.generated(), step, group.first_generated, group.generated);
    const auto truth = vectors_of(comparison.truth(), step, group.first_truth, group.truth);
    int left[2] = {2, 2 * kExactReplicates};  // of cuts and of replicates: value and floor
    for (std::size_t p = 0; p < values.size(); ++p) {
      const Pairing& pairing = comparison.pairings()[p];
      if (left[pairing.resampled ? 1 : 0]-- <= 0) continue;
      values[p] = exact_w2(
          drawn_points(pairing.generated ? generated : truth, dim, pairing.ensemble, points),
          drawn_points(truth, dim, pairing.reference, points), static_cast<std::int64_t>(dim));
    }
    return values;
  });
  score.name = "state";
  score.metric = "exact W2";
  score.details = {{"points", points}};
  return score;
}

Score w2_score(const Comparison& comparison, std::int64_t column) {
  Score score = mean_over_columns(comparison, {column}, w2);
  score.metric = "W2";
  return score;
}

Score crossing_score(const Comparison& comparison, std::int64_t quantity) {
  PairingValues values = zeros(comparison);
  double never_generated = 0, never_truth = 0, generated = 0, truth = 0;
  for (std::size_t g = 0; g < comparison.groups().size(); ++g) {
    const Group& group = comparison.groups()[g];
    const SortedValues sorted(
        crossing_times(comparison.generated(), quantity, group.first_generated, group.generated,
                       never_generated),
        crossing_times(comparison.truth(), quantity, group.first_truth, group.truth, never_truth));
    sorted.for_each(comparison.pairings(), g,
                    [&](std::size_t p, const auto& ensemble, const auto& reference) {
                      values[p] += comparison.pairings()[p].copies_of(g) * w2(ensemble, reference) /
                                   static_cast<double>(comparison.groups().size());
                    });
    generated += static_cast<double>(group.generated);
    truth += static_cast<double>(group.truth);
  }
  Score score = score_once(comparison, values);
  score.metric = "W2 of crossing times";
  score.details = {{"never_generated", never_generated / generated},
                   {"never_truth", never_truth / truth}};
  return score;
}

Score crps_score(const Comparison& comparison, const std::vector<std::int64_t>& columns) {
  Score score = mean_over_columns(comparison, columns, [](const auto& ensemble, const auto& truth) {
    return fair_crps(ensemble, truth);
  });
  score.metric = "fair CRPS";
  return score;
}

Score spread_skill_score(const Comparison& comparison, const std::vector<std::int64_t>& columns) {
  std::vector<double> scale;  // 0: the column is left out
  for (const std::int64_t column : columns) {
    const double deviation = deviations_of(comparison, column).overall;
    scale.push_back(deviation > 0 ? 1 / deviation : 0);
  }
  using Sums = std::vector<SpreadSkill>;  // of each pairing
  std::vector<Sums> at_steps(index(comparison.steps()), Sums(comparison.pairings().size()));
  const auto ratios = [](const Sums& sums) {
    PairingValues values;
    for (const SpreadSkill& sum : sums) values.push_back(sum.ratio());
    return values;
  };
  Score score = score_over_time(
      comparison,
      [&](std::int64_t step) {
        Sums& sums = at_steps[index(step)];
        for (std::size_t g = 0; g < comparison.groups().size(); ++g) {
          for (std::size_t c = 0; c < columns.size(); ++c) {
            if (scale[c] == 0) continue;
            sorted_column(comparison, g, step, columns[c], scale[c])
                .for_each(comparison.pairings(), g,
                          [&](std::size_t p, const auto& ensemble, const auto& reference) {
                            SpreadSkill one;
                            one.add(ensemble, reference);
                            for (int copy = 0; copy < comparison.pairings()[p].copies_of(g); ++copy)
                              sums[p].add(one);
                          });
          }
        }
        return ratios(sums);
      },
      [&] {
        // Squares are added up before the ratio is taken: steps at which hardly anything varies
        // would decide a mean of ratios.
        Sums total = at_steps.front();  // empty: that step is given
        for (const Sums& sums : at_steps) {
          for (std::size_t p = 0; p < total.size(); ++p) total[p].add(sums[p]);
        }
        return ratios(total);
      });
  score.metric = "spread-skill ratio";
  return score;
}

Score rank_score(const Comparison& comparison, const std::vector<std::int64_t>& columns) {
  std::vector<Deviations> deviations;
  for (const std::int64_t column : columns) deviations.push_back(deviations_of(comparison, column));
  std::vector<std::vector<std::int64_t>> counts(index(comparison.steps()));  // of the first cut
  Score score = score_over_time(comparison, [&](std::int64_t step) {
    std::vector<RankHistogram> histograms(comparison.pairings().size(), RankHistogram(kRankBins));
    std::vector<float> uniforms(index(comparison.groups().front().truth));
    for (std::size_t g = 0; g < comparison.groups().size(); ++g) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        // Where the truth hardly varies, ranks would tell of the last digits.
        if (deviations[c].is_negligible_at(step)) continue;
        fill_uniform({static_cast<std::uint64_t>(columns[c]), Purpose::kRankTies,
                      static_cast<std::uint64_t>(g), static_cast<std::uint32_t>(step)},
                     uniforms);
        sorted_column(comparison, g, step, columns[c])
            .for_each(comparison.pairings(), g,
                      [&](std::size_t p, const auto& ensemble, const auto& reference) {
                        for (int copy = 0; copy < comparison.pairings()[p].copies_of(g); ++copy) {
                          histograms[p].add(ensemble, reference,
                                            std::span(uniforms).first(reference.size()));
                        }
                      });
      }
    }
    counts[index(step)] = histograms.front().counts();
    PairingValues values;
    for (const RankHistogram& histogram : histograms) values.push_back(histogram.unevenness());
    return values;
  });
  std::vector<std::int64_t> total(index(kRankBins), 0);
  for (std::size_t t = 1; t < counts.size(); ++t) {
    for (std::size_t b = 0; b < total.size(); ++b) total[b] += counts[t][b];
  }
  score.metric = "unevenness of ranks";
  score.details = {{"counts", total}};
  return score;
}

Score spectrum_score(const Comparison& comparison) {
  const Group& group = comparison.groups().front();
  const std::int64_t channels = comparison.plan().channels();
  Score score = score_over_time(comparison, [&](std::int64_t step) {
    PairingValues values = zeros(comparison);
    for (std::size_t p = 0; p < values.size(); ++p) {
      const Pairing& pairing = comparison.pairings()[p];
      const Ensemble& ensemble = pairing.generated ? comparison.generated() : comparison.truth();
      const std::int64_t first = pairing.generated ? group.first_generated : group.first_truth;
      for (std::int64_t c = 0; c < channels; ++c) {
        values[p] += spectrum_distance(mean_spectrum(ensemble, step, first, pairing.ensemble, c),
                                       mean_spectrum(comparison.truth(), step, group.first_truth,
                                                     pairing.reference, c)) /
                     static_cast<double>(channels);
      }
    }
    return values;
  });
  score.name = "state";
  score.metric = "log10 spectrum";
  return score;
}

}  // namespace slift
