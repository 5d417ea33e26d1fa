// The gauge: are the training labels interpolated, and do fresh ones make samples? It takes one
// step of the network from true windows and no rollout.
//
// On transitions (window w, label xi, target y), in the units of the loss:
//   fitted  = E |F(w, xi) - y|^2, with the labels it is trained on; NaN of a method without any,
//   and
//     on windows it was not trained on;
//   fresh   = E |F(w, xi') - y|^2, with labels it has never seen;
//   spread  = E Var_xi' F(w, xi'), the variance across fresh labels;
//   conditional = fresh - spread = E |y - E_xi' F(w, xi')|^2: the error of the mean over fresh
//     labels. Where the mean is right it is the conditional variance of the data.
// A lifted model interpolates (fitted << conditional) and its labels carry the conditional variance
// (spread / conditional near 1, above all on windows that were held out). A collapsed one has
// fitted near conditional and spread near 0.
//
// All of this is read for single steps t of a trajectory: the first steps have the largest errors
// and would decide a mean over all of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/trajectories.h"
#include "methods/transition_model.h"
#include "training/batch_feed.h"

namespace slift {

struct GaugeReading {
  double fitted = 0, fresh = 0, spread = 0, conditional = 0;
  double variance = 0;  // of the targets around their mean

  // Whether there is something the method gives for these transitions as it was trained on them.
  bool has_fitted() const { return !std::isnan(fitted); }
  double fitted_share() const { return fitted / variance; }
  double fitted_ratio() const { return fitted / conditional; }
  double spread_ratio() const { return spread / conditional; }
};

// Transitions to read the gauge on, for some steps t those of the same trajectories: all steps, or
// pairs of neighbours spread over the trajectory.
struct GaugeProbe {
  std::vector<std::int64_t> steps;
  std::vector<DeviceBatch> transitions;  // of each step
};

// The steps to probe of trajectories with so many transitions.
std::vector<std::int64_t> probed_steps(std::int64_t transitions);

// Takes trajectories spread over the first `members` of `reader`, few enough to cost little.
GaugeProbe make_probe(const TrajectoryReader& reader, std::int64_t members,
                      const std::vector<std::int64_t>& steps, std::int64_t window,
                      const at::Device& device);

// What is read on a probe.
struct ProbeReading {
  GaugeReading pooled;
  std::vector<GaugeReading> at_step;  // of each step of the probe
  // Correlation of the errors of the mean at neighbouring steps: near 0 where each step brings a
  // randomness of its own, as far as the mean is learned; positive where the randomness is frozen,
  // so that what was missing at one step is missing at the next. NaN if it cannot be told.
  double residual_correlation = std::numeric_limits<double>::quiet_NaN();

  // The step, an index into at_step, at which fresh labels spread least for their error.
  std::size_t narrowest() const;
};

struct Gauge {
  std::vector<std::int64_t> steps;
  ProbeReading training;
  std::optional<ProbeReading> held_out;  // of validation data

  // "interpolating": fitted, and fresh labels spread as they should; "interpolating, too narrow" or
  // "too wide" where they do not; "mean collapse" or "not yet interpolating". Of a method without
  // `fitted` "sampling", with the same additions, or "mean collapse".
  std::string verdict() const;
  // The verdict with its reasons, in one sentence.
  std::string in_words() const;
  // Whether the randomness looks frozen, so that labels should persist (lifting.persistent).
  bool is_frozen() const;

  // The reading that says whether fresh labels make samples.
  const ProbeReading& judged() const { return held_out ? *held_out : training; }
};

// Reads the gauge of a model trained with `seed`. Leaves no trace in the model. `held_out` has the
// steps of `training`, or is null.
Gauge read_gauge(const TransitionModel& model, const GaugeProbe& training,
                 const GaugeProbe* held_out, std::uint64_t seed);

}  // namespace slift
