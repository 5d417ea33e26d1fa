// Work that is done over and over, recorded once as a CUDA graph and replayed from then on: the
// hundreds of launches of a step cost the CPU nothing and follow each other without gaps.
#pragma once

#include <functional>
#include <memory>

#include "tensor/torch_compat.h"

namespace slift {

class StepGraph {
 public:
  explicit StepGraph(const at::Device& device);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // Does the work of `body` once, behind what the current stream was given before. The first
  // kWarmups calls run it, the next one records it, all others replay the record. On the CPU every
  // call runs it.
  //
  // `body` must do the same work every time: it reads and writes tensors that exist before and
  // after, at addresses that never change, asks the GPU for no value and draws nothing from the
  // host; whatever differs between steps is read from device memory. What it allocates itself
  // belongs to the graph and holds nothing between calls. If it computes gradients, no other
  // autograd graph of the same leaves may be alive. What it throws is passed on; after that this
  // object is of no use.
  void run(const std::function<void()>& body);

  // Before this many calls anything may still be built and tuned.
  static constexpr int kWarmups = 3;

 private:
  struct Record;
  at::Device device_;
  int calls_ = 0;
  std::unique_ptr<Record> record_;
};

}  // namespace slift
