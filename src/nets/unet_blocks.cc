#include "nets/unet_blocks.h"

#include <torch/autograd.h>

#include <cmath>

#include "core/errors.h"
#include "kernels/ops.h"
#include "nets/backbone.h"

namespace slift {
namespace {

constexpr std::int64_t kChannelUnit = 8;  // of the fused convolutions

std::int64_t padded(std::int64_t channels) {
  return (channels + kChannelUnit - 1) / kChannelUnit * kChannelUnit;
}

// `x` with zeros behind its last entry along dimension `dim`, up to `size`.
Tensor pad_to(const Tensor& x, std::int64_t dim, std::int64_t size) {
  const std::int64_t missing = size - x.size(dim);
  if (missing == 0) return x;
  std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * (x.dim() - dim)));
  pads.back() = missing;
  return at::constant_pad_nd(x, pads);
}

}  // namespace

Tensor growth_map() {
  const Tensor axis = at::tensor({1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 1.0f,  // even
                                  1.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f})
                          .view({2, 2, 3});
  return at::einsum("ipr,jqs->ijpqrs", {axis, axis}).reshape({16, 9});
}

Tensor growing_weight(const Tensor& weight, const Tensor& map) {
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const Tensor taps = weight.permute({0, 2, 3, 1}).reshape({outputs, 9, inputs});
  return at::matmul(map, taps)
      .view({outputs, 4, 4, inputs})
      .transpose(0, 1)
      .reshape({4 * outputs, 2, 2, inputs})
      .permute({0, 3, 1, 2});
}

Linear::Linear(Weights& weights, std::int64_t inputs, std::int64_t outputs, double gain)
    : gain_(gain) {
  weight_ = weights.add_working(register_parameter("weight", at::empty({outputs, inputs})));
  bias_ = weights.add_working(register_parameter("bias", at::empty({outputs})));
}

void Linear::initialise(std::uint64_t seed, std::uint64_t index) {
  torch::NoGradGuard no_grad;
  draw_weight(weight_->master, gain_, seed, index);
  bias_->master.zero_();
}

Tensor Linear::forward(const Tensor& x) const {
  const at::ScalarType type = x.scalar_type();
  return at::addmm(bias_->as(type), x, weight_->as(type).t());
}

FilmStack::FilmStack(Weights& weights, const std::vector<std::shared_ptr<const Linear>>& layers)
    : layers_(layers) {
  const auto together = [&](Tensor (Linear::*part)(at::ScalarType) const) {
    return weights.add_derived([layers, part](at::ScalarType type) {
      std::vector<Tensor> parts;
      for (const auto& layer : layers) parts.push_back((*layer.*part)(type));
      return at::cat(parts);
    });
  };
  weight_ = together(&Linear::weight);
  bias_ = together(&Linear::bias);
  for (const auto& layer : layers) outputs_.push_back(layer->outputs());
}

std::vector<Tensor> FilmStack::forward(const Tensor& e) const {
  const at::ScalarType type = e.scalar_type();
  if (c10::elementSize(type) >= sizeof(float)) {
    std::vector<Tensor> films;
    for (const auto& layer : layers_) films.push_back(layer->forward(e));
    return films;
  }
  return at::addmm(bias_->as(type), e, weight_->as(type).t())
      .to(at::promote_types(type, at::kFloat))
      .split_with_sizes(outputs_, 1);
}

Convolution::Convolution(Weights& weights, const ConvolutionSpec& spec, const UnetStyle& style)
    : spec_(spec),
      gain_(spec.gain * style.init_gain),
      circular_(style.circular && spec.kernel > 1) {
  weight_ = weights.add_working(register_parameter(
      "weight", at::empty({spec.outputs, spec.inputs, spec.kernel, spec.kernel})));
  bias_ = weights.add_working(register_parameter("bias", at::empty({spec.outputs})));
  if (spec.grows) growth_ = register_buffer("growth", growth_map());
  if (needs_preparation()) {
    prepared_weight_ =
        weights.add_derived([this](at::ScalarType type) { return prepare_weight(type); });
    prepared_bias_ = weights.add_derived([this](at::ScalarType type) {
      const Tensor all = pad_to(bias(type), 0, padded(spec_.outputs));
      return spec_.grows ? all.repeat(4) : all;
    });
  }
  if (spec.kernel != 3 || spec.stride != 1 || spec.grows) return;
  fp8_weight_ = weights.add_derived(
      [this](at::ScalarType) {
        if (input_gain_ == 0) return Tensor();
        return ops::weight_to_fp8(weight_->master, fp8_weight_gain())
            .contiguous(at::MemoryFormat::ChannelsLast);
      },
      /*in_float=*/true);
  fp8_scale_ = weights.add_derived(
      [this](at::ScalarType) {
        if (input_gain_ == 0) return Tensor();
        return at::full({1}, 1 / (input_gain_ * fp8_weight_gain()), weight_->master.options());
      },
      /*in_float=*/true);
}

void Convolution::initialise(std::uint64_t seed, std::uint64_t index) {
  torch::NoGradGuard no_grad;
  draw_weight(weight_->master, gain_, seed, index);
  bias_->master.zero_();
}

bool Convolution::needs_preparation() const {
  return spec_.grows || spec_.inputs % kChannelUnit != 0 || spec_.outputs % kChannelUnit != 0;
}

Tensor Convolution::prepare_weight(at::ScalarType type) const {
  const Tensor all =
      pad_to(pad_to(weight_->master, 0, padded(spec_.outputs)), 1, padded(spec_.inputs));
  return (spec_.grows ? growing_weight(all, growth_) : all)
      .to(type)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

double Convolution::fp8_weight_gain() const {
  return ops::fp8_gain(weight_->master.abs().max().item<double>());
}

Tensor Convolution::forward(const Tensor& x) const {
  if (spec_.grows && !ops::has_fused_convolution(x)) {
    const Tensor grown = at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
    return forward_bordered(circular_ ? ops::pad_circular(grown) : grown, {bias(x.scalar_type())});
  }
  const bool framed = takes_framed(x);
  return forward_bordered(circular_ ? ops::pad_circular(x, framed) : x, {bias(x.scalar_type())},
                          framed);
}

bool Convolution::takes_framed(const Tensor& field) const {
  return circular_ && spec_.kernel == 3 && spec_.stride == 1 && !spec_.grows &&
         ops::takes_framed(field, spec_.inputs, spec_.outputs);
}

Tensor Convolution::forward_bordered(const Tensor& x, const Addends& addends, bool framed) const {
  const auto& [bias, residual, mixed] = addends;
  if (x.scalar_type() == at::kByte) {
    return ops::convolution_fp8(x, {.weight = fp8_weight_->kept(),
                                    .scale = fp8_scale_->kept(),
                                    .bias = bias,
                                    .residual = mixed.weight.defined() ? ops::mix(mixed) : residual,
                                    .border = circular_ ? 0 : spec_.kernel / 2});
  }
  ops::ConvolutionArgs args{.weight = {},
                            .bias = bias,
                            .residual = residual,
                            .mixed = mixed,
                            .stride = spec_.stride,
                            .border = circular_ ? 0 : spec_.kernel / 2,
                            .framed = framed};
  if (!ops::has_fused_convolution(x) || !needs_preparation()) {
    args.weight = weight_->as(x.scalar_type());
    return ops::convolution(x, args);
  }
  args.weight = prepared_weight_->as(x.scalar_type());
  if (bias.defined()) args.bias = prepared_bias_->as(x.scalar_type());
  args.grows = spec_.grows;
  const Tensor result = ops::convolution(pad_to(x, 1, padded(spec_.inputs)), args);
  // Even of all channels, narrow() would have its gradient copied twice, out of channels-last.
  return result.size(1) == spec_.outputs ? result : result.narrow(1, 0, spec_.outputs);
}

ops::InputLayout Convolution::input_layout(const at::TensorOptions& fields) const {
  return {at::typeMetaToScalarType(fields.dtype()),
          ops::has_fused_convolution(fields) ? padded(spec_.inputs) : spec_.inputs, circular_};
}

ops::MixArgs Convolution::mixing(const Tensor& a, const Tensor& b) const {
  return {a, b, weight_->as(a.scalar_type())};
}

NormActivation::NormActivation(std::int64_t channels, const UnetStyle& style)
    : activation_(parse_activation(style.activation)), circular_(style.circular) {
  scale_ = register_parameter("scale", at::empty({channels}));
  shift_ = register_parameter("shift", at::empty({channels}));
}

void NormActivation::initialise(std::uint64_t, std::uint64_t) {
  torch::NoGradGuard no_grad;
  scale_.fill_(1);
  shift_.zero_();
}

ops::Normed NormActivation::forward(const Tensor& x, const Tensor& skip, const Tensor& film,
                                    const Tensor& bias, bool framed) const {
  const ops::NormArgs args{.f = activation_,
                           .groups = kGroups,
                           .a = x,
                           .b = skip,
                           .bias = bias,
                           .scale = scale_,
                           .shift = shift_,
                           .film = film,
                           .border = circular_,
                           .framed = framed};
  if (gain_ > 0) return {ops::norm_activation_fp8(args, gain_), x, skip, x};
  const ops::Normed result = ops::norm_activation(args);
  if (recorded_.defined()) {
    recorded_.copy_(at::maximum(recorded_, result.out.detach().abs().max().to(at::kFloat)));
  }
  return result;
}

void NormActivation::begin_recording() { recorded_ = at::zeros({}, scale_.options()); }

void NormActivation::end_recording() {
  largest_ = recorded_.item<double>();
  recorded_ = Tensor();
  require(std::isfinite(largest_), "precision fp8: the network's numbers are not finite");
}

Block::Block(Weights& weights, std::int64_t inputs, std::int64_t outputs, const UnetStyle& style) {
  const double gain = activation_gain(style.activation);
  norm1_ = register_module("norm1", std::make_shared<NormActivation>(inputs, style));
  conv1_ = register_module("conv1", std::make_shared<Convolution>(
                                        weights, ConvolutionSpec{inputs, outputs, gain}, style));
  norm2_ = register_module("norm2", std::make_shared<NormActivation>(outputs, style));
  if (style.label_width > 0) {
    film_ = register_module(
        "film", std::make_shared<Linear>(weights, style.label_width, 2 * outputs, style.init_gain));
  }
  conv2_ = register_module("conv2", std::make_shared<Convolution>(
                                        weights, ConvolutionSpec{outputs, outputs, gain}, style));
  if (inputs != outputs) {
    shortcut_ = register_module(
        "shortcut",
        std::make_shared<Convolution>(
            weights, ConvolutionSpec{.inputs = inputs, .outputs = outputs, .kernel = 1}, style));
    output_bias_ = weights.add_derived([conv2 = conv2_, shortcut = shortcut_](at::ScalarType type) {
      return conv2->bias(type) + shortcut->bias(type);
    });
  }
}

Tensor Block::forward(const Tensor& x, const Tensor& skip, const std::function<Tensor()>& film,
                      Tensor* again) const {
  const at::ScalarType type = x.scalar_type();
  const bool framed1 = conv1_->takes_framed(x), framed2 = conv2_->takes_framed(x);
  const ops::Normed first = norm1_->forward(x, skip, {}, {}, framed1);
  if (again != nullptr) *again = first.again;
  // The second norm adds the first convolution's bias, so that it costs no pass of its own.
  const Tensor h = conv1_->forward_bordered(first.out, {}, framed1);
  const Tensor normed = norm2_->forward(h, {}, film(), conv1_->bias_parameter(), framed2).out;
  Convolution::Addends addends{.bias = conv2_->bias(type), .residual = first.a};
  if (shortcut_) {
    addends = {.bias = output_bias_->as(type), .mixed = shortcut_->mixing(first.a, first.b)};
  }
  return conv2_->forward_bordered(normed, addends, framed2);
}

void Block::begin_calibration() {
  for (const auto& norm : {norm1_, norm2_}) norm->begin_recording();
}

void Block::end_calibration() {
  for (const auto& norm : {norm1_, norm2_}) norm->end_recording();
}

void Block::use_fp8(bool wanted) {
  for (const auto& [norm, conv] : {std::pair{norm1_, conv1_}, {norm2_, conv2_}}) {
    const double gain = wanted ? ops::fp8_gain(norm->largest()) : 0;
    norm->set_gain(gain);
    conv->set_input_gain(gain);
  }
}

}  // namespace slift
