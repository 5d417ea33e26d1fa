// A method: what a training step regresses, and how the next state is sampled.
//
// Training, rollout, gauge and model file know this interface only; methods join through the
// registry (docs/adding.md). A method works in the units of the loss: states of a window are scaled
// to mean 0 and deviation 1, and the next state is what the network is to give (ModelSpec,
// net.output). It holds no state but what tensors() names, and all its random numbers are functions
// of their address, so that a run can be resumed, recorded as a CUDA graph and spread over ranks,
// and gives the same bytes each time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/config.h"
#include "methods/loss.h"
#include "nets/backbone.h"

namespace slift {

// Transitions to train on, all on one device.
struct TrainingBatch {
  Tensor window;      // [B, m, state...], oldest state first
  Tensor target;      // [B, state...]
  Tensor transition;  // [B] int64, which one of the data's each is
  Tensor iteration;   // [1] int64, of the optimiser; it is read on the device
  std::uint64_t seed = 0;
  std::int64_t per_trajectory = 1;  // transitions that a trajectory has

  // Standard normals [B, n] for each (transition, iteration): the same ones at every call.
  Tensor normals(std::int64_t n) const;
};

class Method {
 public:
  virtual ~Method() = default;

  // The network it needs, by what comes in and out and what is embedded; none if it needs none.
  // `network` below is that network, or null.
  virtual std::optional<BackboneShape> backbone_shape() const = 0;

  // The loss of a batch, a scalar with gradients; called by several threads at once, each with a
  // batch of its own. `distance` is what train.loss names.
  virtual Tensor loss(const Backbone* network, const TrainingBatch& batch,
                      const Loss& distance) const = 0;
  // What the method gives for these transitions as it was trained on them [B, state...], for the
  // gauge; undefined if that has no meaning.
  virtual Tensor recall(const Backbone* network, const TrainingBatch& batch) const;

  // Evaluations of the network in one step of a rollout.
  virtual std::int64_t evaluations() const = 0;
  // Random numbers that a member needs for a step.
  virtual std::int64_t numbers() const = 0;
  // Draws them into `out` [B, numbers()], float32 and row-major, as functions of (seed, member,
  // step): member [B] int64 on its device, `step` one int64 there, read on the device. The default
  // draws standard normals.
  virtual void draw(std::uint64_t seed, const Tensor& member, const Tensor& step,
                    const Tensor& out) const;
  // A sample of the next state [B, state...], without gradients: a function of the scaled window
  // [B, m, state...] and the numbers.
  virtual Tensor sample(const Backbone* network, const Tensor& window,
                        const Tensor& numbers) const = 0;
  // Moves `window` [B, m, state...], float32 and row-major, in the data's units, on by the sample:
  // in place. For methods that can fuse it; the default is sample() between the scales, and any
  // other has its bits.
  virtual void advance(const Backbone* network, const Tensor& window, const Tensor& numbers,
                       const Scales& scales) const;

  // What the method itself keeps in the model file, by name; of fixed shapes, float32.
  virtual std::vector<std::pair<std::string, Tensor*>> tensors() { return {}; }
  // Sets these tensors from the training data, before the first step. for_each(body) calls
  // body(window, target) for all transitions, part by part in the data's order, on the host; it may
  // be called more than once.
  using Transitions =
      std::function<void(const std::function<void(const Tensor& window, const Tensor& target)>&)>;
  virtual void fit(const Transitions& for_each);
};

struct MethodEntry {
  std::string name, summary;
  // For states of the given shape and a window of so many.
  std::function<std::unique_ptr<Method>(const MethodConfig&, const std::vector<std::int64_t>& state,
                                        std::int64_t window)>
      make;
};

// All methods; drives `method.kind` and the tests.
const std::vector<MethodEntry>& method_registry();
std::vector<std::string> method_names();
// Adds one, before any config is read. Throws std::logic_error if the name is taken.
void register_method(MethodEntry entry);

// Throws UserError naming the nearest method if the kind is unknown.
std::unique_ptr<Method> make_method(const MethodConfig& config,
                                    const std::vector<std::int64_t>& state, std::int64_t window);

}  // namespace slift
