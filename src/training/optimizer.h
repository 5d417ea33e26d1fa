// AdamW with gradient clipping and an exponential moving average of the weights: one fused pass
// over all parameters on either device. The EMA's decay ramps up as min(ema, (1 + t) / (10 + t)),
// so that early averages forget the initial weights.
//
// A step is two calls: prepare() brings what differs between steps from the host to the device,
// update() does the same work every time and can be recorded (tensor/step_graph.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "nets/weights.h"
#include "training/config.h"

namespace slift {

class Optimizer {
 public:
  // Updates the masters of `weights` in place, with their working copies and their average; all on
  // one device, float32, without gaps. The device and the compute type stay what they are now. The
  // gradient of a master is the sum of its own .grad() and its working copy's; one of them at least
  // is defined when it is needed. `weights` must outlive the optimiser.
  Optimizer(Weights& weights, const TrainConfig& config);

  // Begins the next step, with rate `lr`. Does not wait for the device.
  void prepare(double lr);
  // Applies the step from the gradients, read in the type they have, and leaves them undefined.
  void update();
  // Moves the gradients of working copies into those of the masters, in float32: whoever adds more
  // to them calls it first, or the sum would be rounded.
  void gather_gradients();

  // Of the last update, before clipping; 0 if there was none. Waits for the device.
  double gradient_norm() const { return norm_.item<double>(); }

  std::int64_t steps() const { return steps_; }

  // All state under stable names ("param.0", "first.0", ...), for checkpoints.
  std::map<std::string, Tensor> state() const;
  void load_state(const std::map<std::string, Tensor>& state, std::int64_t steps,
                  const std::string& source);

 private:
  // The gradient of parameter i, which is left undefined.
  Tensor take_gradient(std::size_t i);
  std::vector<std::pair<const char*, std::vector<Tensor>*>> groups();

  Weights& weights_;
  TrainConfig config_;
  ops::AdamWState state_;
  Tensor numbers_;  // of the step, as ops::adamw() wants them
  Tensor norm_;     // of the gradient, float64
  std::int64_t steps_ = 0;
};

// Linear warm-up over `warmup` steps (from 0) times a cosine from 1 to 0 as `phase`, the share of
// the run that is done, goes from 0 to 1.
double schedule(std::int64_t step, std::int64_t warmup, double phase);

}  // namespace slift
