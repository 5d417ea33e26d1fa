// What convolution.cc and convolution_plans.cc share: a convolution as cuDNN's graph, and the
// choices among cuDNN's ways to run it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cudnn.h"

namespace slift::kernels::cuda {

std::mutex& cudnn_mutex();
cudnnHandle_t cudnn_handle();  // of the current GPU; its stream changes under the mutex only

class ConvGraph {
 public:
  explicit ConvGraph(const ConvProblem& problem);
  const Descriptor& descriptor() const { return graph_; }

 private:
  const Descriptor& keep(Descriptor part);
  std::vector<std::unique_ptr<Descriptor>> parts_;
  Descriptor graph_;
};

// An engine of cuDNN and its settings.
struct CudnnChoice {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  // type, value
};

// Throws if cuDNN does not support the choice on this GPU.
std::unique_ptr<ConvPlan> make_plan(std::shared_ptr<const ConvGraph> graph,
                                    const CudnnChoice& choice);

}  // namespace slift::kernels::cuda
