// The parts a UNet is made of. Fields are [B, C, H, W], channels-last in memory.
//
// Nearly all of a UNet's time passes in Convolution and NormActivation; they are the places for
// fused kernels.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "nets/weights.h"
#include "tensor/torch_compat.h"

namespace slift {

// What all parts of one net share.
struct UnetStyle {
  std::string activation;
  bool circular = false;         // fields are periodic; otherwise zeros surround them
  std::int64_t label_width = 0;  // components of the embedded label; 0: there is no label
  double init_gain = 1;          // on top of every part's own gain
};

// A part with parameters of its own, which are unset until initialise() or a copy fills them. Parts
// that meet activations in the compute type enter their weights into the net's Weights, which must
// outlive them.
class Layer : public torch::nn::Module {
 public:
  // Draws the parameters anew, as part number `index` of the net.
  virtual void initialise(std::uint64_t seed, std::uint64_t index) = 0;
};

// y = W x + b: [B, inputs] -> [B, outputs]. Starts with W ~ N(0, gain^2 / inputs), b = 0.
class Linear : public Layer {
 public:
  Linear(Weights& weights, std::int64_t inputs, std::int64_t outputs, double gain);
  void initialise(std::uint64_t seed, std::uint64_t index) override;
  Tensor forward(const Tensor& x) const;

  std::int64_t outputs() const { return weight_->master.size(0); }
  Tensor weight(at::ScalarType type) const { return weight_->as(type); }
  Tensor bias(at::ScalarType type) const { return bias_->as(type); }

 private:
  double gain_;
  std::shared_ptr<const Weight> weight_, bias_;
};

// The films of several blocks, linear layers that all take e, by one matrix product; in float32,
// where no weights are kept side by side and joining them costs more than it saves, by one each.
// The parameters remain the layers' own.
class FilmStack {
 public:
  FilmStack(Weights& weights, const std::vector<std::shared_ptr<const Linear>>& layers);
  // e [B, label_width] -> what each layer gives, [B, outputs]; of one product columns of one
  // matrix, in float32 if e is narrower.
  std::vector<Tensor> forward(const Tensor& e) const;

 private:
  std::vector<std::shared_ptr<const Linear>> layers_;
  std::vector<std::int64_t> outputs_;
  std::shared_ptr<const DerivedWeight> weight_, bias_;  // the layers', one below the other
};

// Nearest neighbours x 2 and a 3 x 3 convolution are four 2 x 2 convolutions of the field before,
// one each for even and odd rows and columns: along an axis (w0, w1 + w2) gives the even and (w0 +
// w1, w2) the odd ones. [O, I, 3, 3] -> [4 O, I, 2, 2], whose results ops::interleave() brings
// together. `map` is growth_map() on the weight's device: [parities and 2 x 2 taps, 3 x 3 taps].
Tensor growth_map();
Tensor growing_weight(const Tensor& weight, const Tensor& map);

struct ConvolutionSpec {
  std::int64_t inputs, outputs;
  double gain = 1;          // before the style's init_gain
  std::int64_t kernel = 3;  // 3 x 3 with a border of one cell, or 1 x 1
  std::int64_t stride = 1;  // 2 halves an even size: output i is centred on input 2 i
  bool grows = false;       // doubles the size first, by nearest neighbours
};

// Convolution with bias. Starts with W ~ N(0, gain^2 / (inputs kernel^2)), b = 0.
class Convolution : public Layer {
 public:
  Convolution(Weights& weights, const ConvolutionSpec& spec, const UnetStyle& style);
  void initialise(std::uint64_t seed, std::uint64_t index) override;

  Tensor forward(const Tensor& x) const;
  // What is added to the weighted sums; undefined ones are not.
  struct Addends {
    Tensor bias = {};         // the convolution's own, or another if channels are multiples of 8
    Tensor residual = {};     // a field, or
    ops::MixArgs mixed = {};  // what another convolution's mixing() gives
  };
  // The same of x as NormActivation leaves it, with its border if the net is circular, or framed.
  Tensor forward_bordered(const Tensor& x, const Addends& addends, bool framed = false) const;
  // Whether that may be a framed field (ops.h) like `field`, apart from its channels.
  bool takes_framed(const Tensor& field) const;
  // How forward_bordered() takes fields of this type and device without a copy of them.
  ops::InputLayout input_layout(const at::TensorOptions& fields) const;
  // Of a 1 x 1 convolution: concat(a, b) weighted, without the bias and without the concatenation.
  ops::MixArgs mixing(const Tensor& a, const Tensor& b) const;

  Tensor bias(at::ScalarType type) const { return bias_->as(type); }
  const Tensor& bias_parameter() const { return bias_->master; }

  // With a gain, forward_bordered() also takes fields that are times that gain in e4m3, once the
  // caller has invalidated the weights; 0 is none. For 3 x 3 convolutions of stride 1.
  void set_input_gain(double gain) { input_gain_ = gain; }

 private:
  // The weight as fused kernels take it, as a function of the parameter: with channels padded to
  // multiples of 8, and if this convolution grows, that of four smaller ones.
  Tensor prepare_weight(at::ScalarType type) const;
  bool needs_preparation() const;  // or else it is the weight as it stands
  double fp8_weight_gain() const;  // waits for the device

  ConvolutionSpec spec_;
  double gain_;
  bool circular_;
  std::shared_ptr<const Weight> weight_, bias_;
  Tensor growth_;  // of growing_weight(), a constant on the device
  double input_gain_ = 0;
  std::shared_ptr<const DerivedWeight> prepared_weight_,
      prepared_bias_;                                            // as fused kernels take them
  std::shared_ptr<const DerivedWeight> fp8_weight_, fp8_scale_;  // of ops::convolution_fp8()
};

// act(g (1 + a) + b), with g the group norm of concat(x, skip) (8 groups, affine, from 1 and 0) and
// (a, b) the halves of `film` [B, 2 channels], one value per channel. An undefined `skip` has no
// channels, an undefined `film` is a = b = 0. `bias`, one value per channel of x, is added to it
// first. In a circular net the result has a border.
class NormActivation : public Layer {
 public:
  static constexpr std::int64_t kGroups = 8;  // must divide `channels`

  NormActivation(std::int64_t channels, const UnetStyle& style);
  void initialise(std::uint64_t seed, std::uint64_t index) override;
  ops::Normed forward(const Tensor& x, const Tensor& skip = {}, const Tensor& film = {},
                      const Tensor& bias = {}, bool framed = false) const;

  // In between, forward() keeps the largest |result|; the end reads it from the device. UserError
  // if it is not finite.
  void begin_recording();
  void end_recording();
  double largest() const { return largest_; }  // of the last recording; 0: none
  // With a gain the result is times that gain in e4m3; 0 is none.
  void set_gain(double gain) { gain_ = gain; }

 private:
  kernels::Activation activation_;
  bool circular_;
  Tensor scale_, shift_;
  Tensor recorded_;  // [] float32 while recording
  double largest_ = 0, gain_ = 0;
};

// shortcut(y) + conv2(norm2(conv1(norm1(y)), film)) of y = concat(x, skip); the shortcut is 1 x
// 1 if the number of channels changes, else the identity. The film is what film() makes of the
// embedded label; without a label there is none.
class Block : public torch::nn::Module {
 public:
  Block(Weights& weights, std::int64_t inputs, std::int64_t outputs, const UnetStyle& style);
  // x and skip have `inputs` channels together; an undefined skip has none. film() gives [B, 2
  // outputs] as in NormActivation, and is called when that is needed, so that it can still be on
  // its way -> [B, outputs, H, W]. `again` receives x for one more use, whose gradient costs no
  // pass of its own then.
  Tensor forward(const Tensor& x, const Tensor& skip, const std::function<Tensor()>& film,
                 Tensor* again = nullptr) const;
  // Null without a label.
  std::shared_ptr<const Linear> film() const { return film_; }

  // In between, forward() records how large the inputs of the two 3 x 3 convolutions get.
  void begin_calibration();
  void end_calibration();
  // Whether these convolutions take inputs and weights in e4m3, once the caller has invalidated the
  // weights. Needs a calibration.
  void use_fp8(bool wanted);

 private:
  std::shared_ptr<NormActivation> norm1_, norm2_;
  std::shared_ptr<Convolution> conv1_, conv2_, shortcut_;
  std::shared_ptr<Linear> film_;
  std::shared_ptr<const DerivedWeight> output_bias_;  // of conv2 and shortcut, if there are both
};

}  // namespace slift
