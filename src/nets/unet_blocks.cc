#include "nets/unet_blocks.h"

#include <torch/autograd.h>

#include "kernels/ops.h"
#include "nets/backbone.h"

namespace slift {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

}  // namespace

Linear::Linear(std::int64_t inputs, std::int64_t outputs, double gain) : gain_(gain) {
  weight_ = register_parameter("weight", at::empty({outputs, inputs}));
  bias_ = register_parameter("bias", at::empty({outputs}));
}

void Linear::initialise(std::uint64_t seed, std::uint64_t index) {
  torch::NoGradGuard no_grad;
  draw_weight(weight_, gain_, seed, index);
  bias_.zero_();
}

Tensor Linear::forward(const Tensor& x) const {
  const at::ScalarType type = x.scalar_type();
  return at::addmm(bias_.to(type), x, weight_.to(type).t());
}

Convolution::Convolution(const ConvolutionSpec& spec, const UnetStyle& style)
    : gain_(spec.gain * style.init_gain),
      stride_(spec.stride),
      border_(spec.kernel / 2),
      circular_(style.circular && spec.kernel > 1) {
  weight_ = register_parameter("weight",
                               at::empty({spec.outputs, spec.inputs, spec.kernel, spec.kernel}));
  bias_ = register_parameter("bias", at::empty({spec.outputs}));
}

void Convolution::initialise(std::uint64_t seed, std::uint64_t index) {
  torch::NoGradGuard no_grad;
  draw_weight(weight_, gain_, seed, index);
  bias_.zero_();
}

Tensor Convolution::forward(const Tensor& x) const {
  const Tensor weight = weight_.to(x.scalar_type()), bias = bias_.to(x.scalar_type());
  if (circular_) return at::conv2d(ops::pad_circular(x), weight, bias, stride_);
  return at::conv2d(x.contiguous(kChannelsLast), weight, bias, stride_, border_);
}

NormActivation::NormActivation(std::int64_t channels, const UnetStyle& style)
    : activation_(parse_activation(style.activation)) {
  scale_ = register_parameter("scale", at::empty({channels}));
  shift_ = register_parameter("shift", at::empty({channels}));
}

void NormActivation::initialise(std::uint64_t, std::uint64_t) {
  torch::NoGradGuard no_grad;
  scale_.fill_(1);
  shift_.zero_();
}

Tensor NormActivation::forward(const Tensor& x, const Tensor& skip, const Tensor& film) const {
  return ops::norm_activation({.f = activation_,
                               .groups = kGroups,
                               .a = x,
                               .b = skip,
                               .scale = scale_,
                               .shift = shift_,
                               .film = film})
      .out;
}

Block::Block(std::int64_t inputs, std::int64_t outputs, const UnetStyle& style) {
  const double gain = activation_gain(style.activation);
  norm1_ = register_module("norm1", std::make_shared<NormActivation>(inputs, style));
  conv1_ = register_module(
      "conv1", std::make_shared<Convolution>(ConvolutionSpec{inputs, outputs, gain}, style));
  norm2_ = register_module("norm2", std::make_shared<NormActivation>(outputs, style));
  if (style.label_width > 0) {
    film_ = register_module(
        "film", std::make_shared<Linear>(style.label_width, 2 * outputs, style.init_gain));
  }
  conv2_ = register_module(
      "conv2", std::make_shared<Convolution>(ConvolutionSpec{outputs, outputs, gain}, style));
  if (inputs != outputs) {
    shortcut_ = register_module(
        "shortcut", std::make_shared<Convolution>(
                        ConvolutionSpec{.inputs = inputs, .outputs = outputs, .kernel = 1}, style));
  }
}

Tensor Block::forward(const Tensor& x, const Tensor& skip, const Tensor& e) const {
  Tensor h = conv1_->forward(norm1_->forward(x, skip));
  h = conv2_->forward(norm2_->forward(h, {}, film_ ? film_->forward(e) : Tensor()));
  const Tensor y = skip.defined() ? at::cat({x, skip}, 1) : x;
  return h + (shortcut_ ? shortcut_->forward(y) : y);
}

}  // namespace slift
