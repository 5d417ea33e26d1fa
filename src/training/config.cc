#include "training/config.h"

#include "methods/loss.h"

namespace slift {

ConfigSchema TrainConfig::schema() {
  ConfigSchema s;
  s.field("seed", &seed, Effect::kResults, "of weights, labels and data order", at_least(0));

  s.section("data", "The training trajectories");
  s.field("path", &path, Effect::kResults, "trajectory file (`slift simulate`, `slift import`)");
  s.field("members", &members, Effect::kResults, "use the first so many trajectories; 0: all",
          at_least(0));
  s.field("memory_mb", &memory_mb, Effect::kResults,
          "data above this size are streamed and shuffled in pools of this size",
          within(1, 1 << 20));
  s.field("device_mb", &device_mb, Effect::kSpeed,
          "data up to this size (and memory_mb) are kept on the GPU", within(0, 1 << 20));

  method.bind(s);
  net.bind(s);

  s.section("optim", "AdamW with linear warm-up, cosine decay to 0, clipping and EMA");
  s.field("lr", &lr, Effect::kResults, "peak learning rate", above(0));
  s.field("weight_decay", &weight_decay, Effect::kResults, "decoupled weight decay", at_least(0));
  s.field("beta1", &beta1, Effect::kResults, "decay of the first moment", within(0, 0.9999999));
  s.field("beta2", &beta2, Effect::kResults, "decay of the second moment", within(0, 0.9999999));
  s.field("eps", &eps, Effect::kResults, "added to the root of the second moment", above(0));
  s.field("clip", &clip, Effect::kResults, "largest gradient norm; 0: no clipping", at_least(0));
  s.field("warmup", &warmup, Effect::kResults, "iterations of linear warm-up", at_least(0));
  s.field("ema", &ema, Effect::kResults,
          "decay of the averaged weights that the model file holds; 0: the last weights",
          within(0, 0.9999999));

  s.section("train", "The run");
  s.field("iterations", &iterations, Effect::kResults, "optimiser steps", at_least(1));
  s.field("minutes", &minutes, Effect::kResults,
          "time budget: the schedule is fitted to it and `iterations` ignored; 0: none",
          at_least(0));
  s.field("batch", &batch, Effect::kResults, "transitions a step", within(1, 1 << 24));
  s.field("accumulate", &accumulate, Effect::kSpeed,
          "parts a batch is computed in, one after the other, to save memory; divides `batch`; "
          "results agree to rounding",
          within(1, 1 << 20));
  s.field("loss", &loss, Effect::kResults, "what is minimised", one_of(loss_names()));
  s.field("precision", &precision, Effect::kSpeed,
          "of the network's arithmetic; tf32 and bf16 need a GPU, weights stay in fp32",
          one_of({"fp32", "tf32", "bf16"}));
  s.field("log_every", &log_every, Effect::kSpeed, "steps between lines of metrics.jsonl",
          at_least(1));
  s.field("checkpoint_every", &checkpoint_every, Effect::kSpeed, "steps between checkpoints",
          at_least(1));
  s.field("gauge_every", &gauge_every, Effect::kSpeed,
          "steps between readings of the interpolation gauge; 0: only at the end", at_least(0));
  s.field("device", &device, Effect::kSpeed, "results agree to rounding", one_of({"cpu", "cuda"}));
  s.field("graph", &graph, Effect::kSpeed,
          "record a step on a GPU as one CUDA graph: faster, same results");
  s.field("threads", &threads, Effect::kSpeed,
          "CPU threads, 0: OMP_NUM_THREADS or all cores; the same results", within(0, 4096));

  s.section("score",
            "A last stretch of training that also looks at rollouts, by their energy score");
  s.field("from", &score.from, Effect::kResults, "share of the run after which it begins; 1: never",
          within(0, 1));
  s.field("weight", &score.weight, Effect::kResults, "of the score beside the regression",
          above(0));
  s.field("members", &score.members, Effect::kResults,
          "rolled out in each step, from the beginning of training trajectories", within(2, 65536));
  s.field("truths", &score.truths, Effect::kResults, "training trajectories they are compared with",
          within(1, 65536));
  s.field("steps", &score.steps, Effect::kResults, "of these rollouts; 0: whole trajectories",
          at_least(0));

  s.section("validation", "Rollouts during training, compared with the truth");
  s.field("path", &validation_path, Effect::kSpeed, "trajectories not used for training");
  s.field("every", &validate_every, Effect::kSpeed, "steps between validations; 0: none",
          at_least(0));
  s.field("members", &validation_members, Effect::kSpeed,
          "rollouts each time; twice as many trajectories are needed for the floor",
          within(2, 1 << 20));
  return s;
}

}  // namespace slift
