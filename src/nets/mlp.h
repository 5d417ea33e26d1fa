// Fully connected network for vector states: (window, label) -> hidden layers -> state.
#pragma once

#include "nets/backbone.h"

namespace slift {

class Mlp : public Backbone {
 public:
  Mlp(const NetConfig& config, const BackboneShape& shape);
  void initialise(std::uint64_t seed) override;

 private:
  Tensor forward_impl(const Tensor& window, const Tensor& label) const override;

  std::string activation_;
  double gain_;
  std::vector<Tensor> weights_, biases_;  // layer i: [out, in], [out]
};

}  // namespace slift
