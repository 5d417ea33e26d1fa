// The one owner of a network's weights, in every form that it computes with.
//
// Masters are the parameters, float32. Working weights are their copies in the compute type, leaves
// of autograd. Derived weights are functions of both (joined, padded, in fp8), kept for use without
// gradients. The average is what training makes of the masters. Whoever changes a master, in
// whatever way LibTorch knows, has nothing else to do: sync(), which every evaluation begins with,
// sees it by the version and brings the other forms up to date, where they are in memory, so that
// recorded CUDA graphs read the new ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// A master and, if the network computes in another type, its working copy there, with a gradient of
// its own, in its own type.
struct Weight {
  Tensor master, working;
  // The working copy, if it has that type; else the master in `type`.
  Tensor as(at::ScalarType type) const;
};

// A tensor made of weights.
class DerivedWeight {
 public:
  // Gives a new tensor for a compute type; undefined: there is none.
  using Make = std::function<Tensor(at::ScalarType)>;
  DerivedWeight(Make make, bool in_float) : make_(std::move(make)), in_float_(in_float) {}

  // What is kept, undefined if nothing is.
  const Tensor& kept() const { return kept_; }
  bool keeps(at::ScalarType type) const { return kept_.defined() && type_ == type; }
  // For the compute type `type`; without gradients what is kept, if that is for it.
  Tensor as(at::ScalarType type) const;

 private:
  friend class Weights;
  void renew(at::ScalarType type);

  Make make_;
  bool in_float_;
  at::ScalarType type_ = at::kFloat;
  Tensor kept_;
};

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // For the parts of a network, while it is built: `master` is one that activations meet in the
  // compute type.
  std::shared_ptr<const Weight> add_working(const Tensor& master);
  // A tensor that `make` derives, called when all working copies are up to date. Where the network
  // computes in float32 nothing is kept, unless `in_float` is set.
  std::shared_ptr<const DerivedWeight> add_derived(DerivedWeight::Make make, bool in_float = false);
  // All parameters of the network, in their order.
  void set_masters(std::vector<Tensor> masters) { masters_ = std::move(masters); }

  const std::vector<Tensor>& masters() const { return masters_; }
  // One for each master, undefined where there is none; up to date.
  std::vector<Tensor> working();

  // The type that the network computes in.
  void set_type(at::ScalarType type);
  // Says that something changed which derived weights depend on and LibTorch does not count: the
  // device, the layout in memory, a gain.
  void invalidate() { ++changes_; }
  // Goes up with every change of a master. Costs some nanoseconds for each.
  std::uint64_t version() const;
  // Brings the forms up to date that are needed: with gradients the working copies, without them
  // the derived ones, too. Costs no more than version() if nothing changed. May be called by
  // several threads at once, but not beside a change. Does no work while a CUDA graph is recorded
  // or replayed: whoever replays one calls it first.
  void sync();

  // For the optimiser: the masters are about to change, and their working copies with them, by
  // kernels LibTorch does not see.
  void begin_update();

  // Averages of the masters, made as copies of them at the first call.
  const std::vector<Tensor>& keep_average();
  bool has_average() const { return !average_.empty(); }
  // Calls `use` while the masters have the values of the average.
  void with_average(const std::function<void()>& use);
  // What a model file gets: the average if there is one, else the masters.
  const std::vector<Tensor>& best() const { return has_average() ? average_ : masters_; }

 private:
  void sync_working(std::uint64_t version);

  std::vector<Tensor> masters_, average_;
  std::vector<std::shared_ptr<Weight>> weights_;
  std::vector<std::shared_ptr<DerivedWeight>> derived_;
  at::ScalarType type_ = at::kFloat;
  std::atomic<std::uint64_t> changes_{1};
  std::mutex mutex_;                                          // of bringing up to date
  std::atomic<std::uint64_t> working_at_{0}, derived_at_{0};  // the versions they are of
};

}  // namespace slift
