// Everything that defines a training run; docs/config.md is generated from it.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"
#include "methods/config.h"
#include "nets/config.h"

namespace slift {

// A last stretch of training that looks at rollouts (training/rollout_score.h).
struct ScoreConfig {
  double from = 1;
  double weight = 0.5;
  std::int64_t members = 8;
  std::int64_t truths = 64;
  std::int64_t steps = 0;
};

struct TrainConfig {
  std::int64_t seed = 0;

  // [data]
  std::string path;
  std::int64_t members = 0;
  std::int64_t memory_mb = 512;
  std::int64_t device_mb = 16384;

  MethodConfig method;
  NetConfig net;

  // [optim]
  double lr = 1e-3;
  double weight_decay = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip = 1.0;
  std::int64_t warmup = 200;
  double ema = 0.999;

  // [train]
  std::int64_t iterations = 5000;
  double minutes = 0;
  std::int64_t batch = 1024;
  std::int64_t accumulate = 1;
  std::string loss = "l2";
  std::string precision = "fp32";
  std::int64_t log_every = 50;
  std::int64_t checkpoint_every = 1000;
  std::int64_t gauge_every = 1000;
  std::string device = "cpu";
  bool graph = true;
  std::int64_t threads = 0;

  ScoreConfig score;

  // [validation]
  std::string validation_path;
  std::int64_t validate_every = 0;
  std::int64_t validation_members = 256;

  ConfigSchema schema();  // points into this object
};

}  // namespace slift
