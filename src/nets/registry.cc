#include <torch/autograd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/random.h"
#include "kernels/ops.h"
#include "nets/backbone.h"
#include "nets/mlp.h"
#include "nets/unet.h"

namespace slift {

void NetConfig::bind(ConfigSchema& s) {
  std::vector<std::string> kinds;
  for (const BackboneEntry& entry : backbone_registry()) kinds.push_back(entry.name);
  s.section("net", "The network");
  s.field("kind", &kind, Effect::kResults, "network family", one_of(kinds));
  s.field("window", &window, Effect::kResults, "past states the network sees", within(1, 64));
  s.field("output", &output, Effect::kResults,
          "what the network predicts: the scaled step to add to the last state, or the next state",
          one_of({"residual", "direct"}));
  s.field("activation", &activation, Effect::kResults, "gelu in its tanh form",
          one_of({"gelu", "silu"}));
  s.field("init_gain", &init_gain, Effect::kResults,
          "scale of the initial weights; 1 keeps activations at unit scale, less starts smoother",
          above(0));
  s.field("width", &width, Effect::kResults, "mlp: units of a hidden layer", within(1, 65536));
  s.field("layers", &layers, Effect::kResults, "mlp: hidden layers", within(1, 64));
  s.field("widths", &widths, Effect::kResults,
          "unet: channels of each level, finest first, multiples of 8; each next level halves the "
          "field",
          within(8, 16384));
  s.field("padding", &padding, Effect::kResults,
          "unet: what surrounds a field; circular for periodic systems",
          one_of({"zeros", "circular"}));
  s.field("label_width", &label_width, Effect::kResults, "unet: units of the embedded label",
          within(1, 65536));
}

const std::vector<BackboneEntry>& backbone_registry() {
  static const std::vector<BackboneEntry> entries = {
      {"mlp",
       "fully connected, for vector states",
       {"width", "layers"},
       [](const NetConfig& config, const BackboneShape& shape) -> std::shared_ptr<Backbone> {
         return std::make_shared<Mlp>(config, shape);
       },
       {"net.width=16", "net.layers=2"},
       {3}},
      {"unet",
       "convolutional with skips and FiLM, for fields",
       {"widths", "padding", "label_width"},
       [](const NetConfig& config, const BackboneShape& shape) -> std::shared_ptr<Backbone> {
         return std::make_shared<Unet>(config, shape);
       },
       {"net.widths=[8,16]", "net.label_width=16"},
       {2, 8, 6}},
  };
  return entries;
}

namespace {

void refuse_keys_of_other_families(const NetConfig& config) {
  NetConfig given = config, defaults;
  ConfigSchema given_schema, default_schema;
  given.bind(given_schema);
  defaults.bind(default_schema);
  const nlohmann::json now = given_schema.to_json().at("net"),
                       before = default_schema.to_json().at("net");
  for (const BackboneEntry& entry : backbone_registry()) {
    if (entry.name == config.kind) continue;
    for (const std::string& key : entry.keys) {
      require(now.at(key) == before.at(key), "net.{} = {} is a key of net.kind = {}, not of {}",
              key, now.at(key).dump(), entry.name, config.kind);
    }
  }
}

}  // namespace

std::shared_ptr<Backbone> make_backbone(const NetConfig& config, const BackboneShape& shape) {
  std::vector<std::string> names;
  for (const BackboneEntry& entry : backbone_registry()) {
    if (entry.name == config.kind) {
      refuse_keys_of_other_families(config);
      std::shared_ptr<Backbone> net = entry.make(config, shape);
      net->weights();
      return net;
    }
    names.push_back(entry.name);
  }
  fail("net.kind: unknown network {}; the nearest is {}", config.kind,
       nearest_name(config.kind, names));
}

void Backbone::check_shapes(const Tensor& window, const Tensor& label) const {
  std::vector<std::int64_t> expected = {window.size(0), shape_.window};
  expected.insert(expected.end(), shape_.state.begin(), shape_.state.end());
  TORCH_CHECK(window.sizes() == expected, "backbone: window ", window.sizes(), ", expected ",
              expected);
  TORCH_CHECK(label.dim() == 2 && label.size(0) == window.size(0) &&
                  label.size(1) == shape_.label_dimension,
              "backbone: label ", label.sizes(), ", expected [", window.size(0), ", ",
              shape_.label_dimension, "]");
}

Weights& Backbone::weights() {
  if (weights_.masters().size() != parameters().size()) weights_.set_masters(parameters());
  return weights_;
}

void Backbone::set_compute_type(at::ScalarType type) {
  compute_type_ = type;
  weights_.set_type(type);
}

Tensor Backbone::forward(const Tensor& window, const Tensor& label) const {
  check_shapes(window, label);
  sync();
  const at::ScalarType given = window.scalar_type(), type = compute_type_.value_or(given);
  return forward_impl(window.to(type), label.to(type)).to(given);
}

void Backbone::advance(const Tensor& window, const Tensor& label, const Scales& scales) const {
  check_shapes(window, label);
  TORCH_CHECK(shape_.outputs == 1, "backbone: advance() needs one output");
  sync();
  advance_impl(window, label, scales);
}

void Backbone::advance_impl(const Tensor& window, const Tensor& label, const Scales& scales) const {
  const Tensor out = forward((window - scales.mean) / scales.std, label);
  ops::push_state(window, out, scales.offset, scales.scale);
}

void Backbone::require_fp8() const {
  fail("precision fp8 is for networks with convolutions, this one has none");
}

void Backbone::calibrate(const std::function<void()>&) { require_fp8(); }

void Backbone::use_fp8(bool wanted) {
  if (wanted) require_fp8();
}

kernels::Activation parse_activation(const std::string& name) {
  return name == "silu" ? kernels::Activation::kSilu : kernels::Activation::kGelu;
}

namespace {

// Our CPU kernel in autograd's terms; what it gains is in docs/performance.md.
struct Activate : torch::autograd::Function<Activate> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const std::string& name) {
    context->save_for_backward({x});
    context->saved_data["name"] = name;
    return ops::activation(parse_activation(name), x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto f = parse_activation(context->saved_data["name"].toStringRef());
    return {ops::activation_backward(f, context->get_saved_variables()[0], grads[0]), Tensor()};
  }
};

}  // namespace

Tensor activate(const Tensor& x, const std::string& activation) {
  if (!x.requires_grad()) return ops::activation(parse_activation(activation), x);
  return Activate::apply(x, activation);
}

double activation_gain(const std::string& activation) {
  // E[gelu(z)^2] = 0.4252 and E[silu(z)^2] = 0.3557 by quadrature.
  return activation == "silu" ? std::sqrt(1 / 0.3557) : std::sqrt(1 / 0.4252);
}

void draw_weight(Tensor weight, double gain, std::uint64_t seed, std::uint64_t index) {
  Tensor values = at::empty(weight.sizes(), at::kFloat);
  const std::span<float> out(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()));
  fill_normal({seed, Purpose::kWeights, index, 0}, out);
  const auto fan_in = static_cast<double>(weight.numel() / weight.size(0));
  values.mul_(gain / std::sqrt(fan_in));
  weight.copy_(values);
}

}  // namespace slift
