// AdamW with gradient clipping and an exponential moving average of the weights.
//
// On the CPU one fused pass over all parameters; on CUDA LibTorch's fused AdamW. The EMA's decay
// ramps up as min(ema, (1 + t) / (10 + t)), so that early averages forget the initial weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "training/config.h"

namespace slift {

class Optimizer {
 public:
  // `params` are updated in place; all on one device, float32.
  Optimizer(std::vector<Tensor> params, const TrainConfig& config);

  // Applies one update from the parameters' gradients and clears them. `lr` is the current rate.
  // Returns the gradient norm before clipping (CPU) or -1 (CUDA, where reading it would wait).
  double step(double lr);

  const std::vector<Tensor>& ema() const { return state_.ema; }
  std::int64_t steps() const { return steps_; }

  // All state under stable names ("param.0", "first.0", ...), for checkpoints.
  std::map<std::string, Tensor> state() const;
  void load_state(const std::map<std::string, Tensor>& state, std::int64_t steps,
                  const std::string& source);

 private:
  double step_cpu(double lr, double ema_decay);
  void step_cuda(double lr, double ema_decay);
  std::vector<std::pair<const char*, std::vector<Tensor>*>> groups();

  TrainConfig config_;
  ops::AdamWState state_;
  std::vector<Tensor> cuda_steps_;
  std::int64_t steps_ = 0;
};

// Linear warm-up over `warmup` steps (from 0) times a cosine from 1 to 0 as `phase`, the share of
// the run that is done, goes from 0 to 1.
double schedule(std::int64_t step, std::int64_t warmup, double phase);

}  // namespace slift
