// Convolutional network for fields, conditioned on the label by FiLM.
//
//   e    = act(Linear(act(Linear(label))))
//   stem = conv(window as m C channels)                          -> w0
//   down, level i = 0 .. L-1: two blocks, each output kept as a skip; stride-2 conv to w(i+1)
//   middle: two blocks at w(L-1)
//   up, level i = L-1 .. 0: two blocks, each on concat(x, last skip); nearest x 2, conv to w(i-1)
//   out  = conv(act(norm(block(concat(conv(x), stem)))))         -> C
//
// All convolutions are 3 x 3. Blocks are those of unet_blocks.h: residual, group norm, FiLM
// (Perez et al. 2018) by e. Label dimension 0 leaves out e and with it all FiLM parameters.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nets/backbone.h"
#include "nets/unet_blocks.h"

namespace slift {

class Unet : public Backbone {
 public:
  // Throws UserError unless the states are fields whose height and width are multiples of
  // 2^(levels - 1) and all widths are multiples of 8.
  Unet(const NetConfig& config, const BackboneShape& shape);

  // Variance-preserving: with `net.init_gain` 1 shortcut and branch of a block have unit scale, and
  // the label acts at two thirds of it. As in the MLP, the last layer is small but not 0: a new
  // model predicts nearly "next state = last state", and all weights have gradients.
  void initialise(std::uint64_t seed) override;
  // Fp8 are the 3 x 3 convolutions inside blocks, five sixths of the work; all widths must be
  // multiples of 16.
  void require_fp8() const override;
  void calibrate(const std::function<void()>& evaluate) override;
  void use_fp8(bool wanted) override;

 private:
  using BlockPair = std::array<std::shared_ptr<Block>, 2>;

  std::shared_ptr<Block> add_block(const std::string& name, std::int64_t inputs, std::int64_t width,
                                   const UnetStyle& style);
  BlockPair add_pair(const std::string& name, std::int64_t inputs, std::int64_t width,
                     const UnetStyle& style);
  Tensor forward_impl(const Tensor& window, const Tensor& label) const override;
  void advance_impl(const Tensor& window, const Tensor& label, const Scales& scales) const override;
  // What follows the stem. The result lies as the head leaves it, possibly as the first of more
  // channels. film_of(block) gives what films() has for it.
  using FilmOf = std::function<Tensor(const Block*)>;
  Tensor after_stem(const Tensor& stem, const FilmOf& film_of) const;
  template <typename Body>
  void for_each_layer(const Body& body) const;  // calls body(layer)
  Tensor embed(const Tensor& label) const;      // [B, d] -> e
  // What each block takes as its film; empty if d = 0.
  std::map<const Block*, Tensor> films(const Tensor& label) const;

  std::string activation_;
  std::vector<std::int64_t> widths_;
  bool calibrated_ = false;
  std::shared_ptr<Linear> label1_, label2_;
  std::shared_ptr<Convolution> stem_, smooth_, head_;
  std::vector<BlockPair> down_, up_;                         // by level, 0 the finest
  std::vector<std::shared_ptr<Convolution>> shrink_, grow_;  // i: between levels i and i + 1
  BlockPair middle_;
  std::shared_ptr<Block> merge_;
  std::vector<std::shared_ptr<Block>> blocks_;  // all of the above
  std::optional<FilmStack> film_stack_;         // theirs, in this order; none if d = 0
  std::shared_ptr<NormActivation> head_norm_;
};

}  // namespace slift
