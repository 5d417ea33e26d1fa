// The interpolation gauge: is a run in the lifting regime, or collapsing to the mean?
//
// On a probe of training transitions (window w, label xi, target y), in the units of the loss:
//   fitted  = E |F(w, xi) - y|^2, with the labels it is trained on; NaN of a method without any;
//   fresh   = E |F(w, xi') - y|^2, with labels it has never seen;
//   spread  = E Var_xi' F(w, xi'), the variance across fresh labels;
//   conditional = fresh - spread = E |y - mean_xi' F(w, xi')|^2: what the window and the network's
//     mean leave unexplained, an estimate of the conditional variance of the data.
// A lifted model interpolates (fitted << variance of y) and its labels carry the conditional
// variance (spread / conditional near 1). A collapsed one has fitted near conditional, spread near
// 0.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "methods/transition_model.h"
#include "training/batch_feed.h"

namespace slift {

struct GaugeReading {
  double fitted = 0, fresh = 0, spread = 0, conditional = 0;
  double variance = 0;  // of the targets around their mean

  // Whether the method gives anything for the transitions it was trained on.
  bool has_fitted() const { return !std::isnan(fitted); }
  double fitted_share() const { return fitted / variance; }
  double fitted_ratio() const { return fitted / conditional; }
  double spread_ratio() const { return spread / conditional; }

  // "interpolating", "mean collapse" or "not yet interpolating"; without `fitted` "mean collapse"
  // or "sampling".
  std::string verdict() const;
  // The verdict with its reasons, in one sentence.
  std::string in_words() const;
};

// Reads the gauge on `probe` of a model trained with `seed`. Leaves no trace in the model.
GaugeReading read_gauge(const TransitionModel& model, const DeviceBatch& probe, std::uint64_t seed);

}  // namespace slift
