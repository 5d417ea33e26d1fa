#include "nets/unet.h"

#include <map>

#include "core/errors.h"
#include "tensor/beside.h"

namespace slift {
namespace {

constexpr std::size_t kMaxLevels = 16;
constexpr std::int64_t kFp8ChannelUnit = 16;  // of ops::convolution_fp8()

void check(const std::vector<std::int64_t>& widths, const std::vector<std::int64_t>& state) {
  require(state.size() == 3, "net.kind = unet goes with fields, the data have vector states");
  require(!widths.empty() && widths.size() <= kMaxLevels,
          "net.widths must name 1 to {} levels, got {}", kMaxLevels, widths.size());
  for (const std::int64_t width : widths) {
    require(width > 0 && width % NormActivation::kGroups == 0,
            "net.widths must be multiples of {}, got {}", NormActivation::kGroups, width);
  }
  const std::int64_t unit = std::int64_t{1} << (widths.size() - 1);
  require(state[1] % unit == 0 && state[2] % unit == 0,
          "net.widths names {} levels: height and width of the fields must be multiples of {}, got "
          "{} x {}",
          widths.size(), unit, state[1], state[2]);
}

}  // namespace

Unet::Unet(const NetConfig& config, const BackboneShape& shape)
    : Backbone(shape), activation_(config.activation), widths_(config.widths) {
  const std::vector<std::int64_t>& widths = config.widths;
  check(widths, shape.state);
  const double gain = activation_gain(config.activation);
  const std::int64_t channels = shape.state[0];
  UnetStyle style{config.activation, config.padding == "circular", 0, config.init_gain};
  if (shape.label_dimension > 0) {
    style.label_width = config.label_width;
    label1_ =
        register_module("label1", std::make_shared<Linear>(weights(), shape.label_dimension,
                                                           style.label_width, style.init_gain));
    label2_ = register_module(
        "label2", std::make_shared<Linear>(weights(), style.label_width, style.label_width,
                                           gain * style.init_gain));
  }
  const auto convolution = [&](const std::string& name, const ConvolutionSpec& spec) {
    return register_module(name, std::make_shared<Convolution>(weights(), spec, style));
  };

  stem_ = convolution("stem", {shape.window * channels, widths[0]});
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string level = std::to_string(i);
    down_.push_back(add_pair("down" + level, widths[i], widths[i], style));
    up_.push_back(add_pair("up" + level, 2 * widths[i], widths[i], style));
    if (i + 1 == widths.size()) break;
    shrink_.push_back(convolution("shrink" + level,
                                  {.inputs = widths[i], .outputs = widths[i + 1], .stride = 2}));
    grow_.push_back(convolution("grow" + level,
                                {.inputs = widths[i + 1], .outputs = widths[i], .grows = true}));
  }
  middle_ = add_pair("middle", widths.back(), widths.back(), style);
  smooth_ = convolution("smooth", {widths[0], widths[0]});
  merge_ = add_block("merge", 2 * widths[0], widths[0], style);
  if (shape.label_dimension > 0) {
    std::vector<std::shared_ptr<const Linear>> films;
    for (const auto& block : blocks_) films.push_back(block->film());
    film_stack_.emplace(weights(), films);
  }
  head_norm_ = register_module("head_norm", std::make_shared<NormActivation>(widths[0], style));
  head_ = convolution("head", {widths[0], shape.outputs * channels, 0.1 * gain});
}

std::shared_ptr<Block> Unet::add_block(const std::string& name, std::int64_t inputs,
                                       std::int64_t width, const UnetStyle& style) {
  return blocks_.emplace_back(
      register_module(name, std::make_shared<Block>(weights(), inputs, width, style)));
}

Unet::BlockPair Unet::add_pair(const std::string& name, std::int64_t inputs, std::int64_t width,
                               const UnetStyle& style) {
  return {add_block(name + "_block1", inputs, width, style),
          add_block(name + "_block2", inputs, width, style)};
}

template <typename Body>
void Unet::for_each_layer(const Body& body) const {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* layer = dynamic_cast<Layer*>(module.get())) body(*layer);
  }
}

void Unet::initialise(std::uint64_t seed) {
  std::uint64_t index = 0;
  for_each_layer([&](Layer& layer) { layer.initialise(seed, index++); });
}

void Unet::require_fp8() const {
  for (const std::int64_t width : widths_) {
    require(width % kFp8ChannelUnit == 0,
            "precision fp8 needs net.widths that are multiples of {}, got {}", kFp8ChannelUnit,
            width);
  }
}

void Unet::calibrate(const std::function<void()>& evaluate) {
  require_fp8();
  use_fp8(false);
  calibrated_ = false;
  for (const auto& block : blocks_) block->begin_calibration();
  evaluate();
  for (const auto& block : blocks_) block->end_calibration();
  calibrated_ = true;
}

void Unet::use_fp8(bool wanted) {
  require(calibrated_ || !wanted, "precision fp8 needs a network that was calibrated");
  for (const auto& block : blocks_) block->use_fp8(wanted);
  weights().invalidate();
}

Tensor Unet::embed(const Tensor& label) const {
  const Tensor hidden = activate(label1_->forward(label), activation_);
  return activate(label2_->forward(hidden), activation_);
}

std::map<const Block*, Tensor> Unet::films(const Tensor& label) const {
  if (!film_stack_) return {};
  const std::vector<Tensor> parts = film_stack_->forward(embed(label));
  std::map<const Block*, Tensor> by_block;
  for (std::size_t i = 0; i < parts.size(); ++i) by_block[blocks_[i].get()] = parts[i];
  return by_block;
}

Tensor Unet::forward_impl(const Tensor& window, const Tensor& label) const {
  std::map<const Block*, Tensor> film = films(label);
  const Tensor stem = stem_->forward(window.flatten(1, 2));
  return after_stem(stem, [&](const Block* block) { return film[block]; }).contiguous();
}

void Unet::advance_impl(const Tensor& window, const Tensor& label, const Scales& scales) const {
  const at::ScalarType type = compute_type();
  // They do not depend on the window: of one member, they would take as long as the stem.
  std::map<const Block*, Tensor> film;
  Beside beside(window.device(), [&] { film = films(label.to(type)); });
  const Tensor input = ops::pack_window(window, scales.mean, scales.std,
                                        stem_->input_layout(window.options().dtype(type)));
  const Tensor stem = stem_->forward_bordered(input, {stem_->bias(type)});
  const Tensor out = after_stem(stem, [&](const Block* block) {
    beside.join();
    return film[block];
  });
  ops::push_state(window, out, scales.offset, scales.scale);
}

Tensor Unet::after_stem(const Tensor& stem, const FilmOf& film_of) const {
  const auto apply = [&](const std::shared_ptr<Block>& block, const Tensor& x, const Tensor& skip,
                         Tensor* again = nullptr) {
    return block->forward(
        x, skip, [&] { return film_of(block.get()); }, again);
  };
  // What comes back on the way up: the stem and the outputs of blocks on the way down. Where a
  // block follows, it hands them on.
  std::vector<Tensor> skips = {stem};
  Tensor x = stem;
  const auto go_on = [&](const std::shared_ptr<Block>& block) {
    const bool kept = x.is_same(skips.back());
    x = apply(block, x, {}, kept ? &skips.back() : nullptr);
  };
  for (std::size_t i = 0; i < down_.size(); ++i) {
    for (const auto& block : down_[i]) {
      go_on(block);
      skips.push_back(x);
    }
    if (i < shrink_.size()) x = shrink_[i]->forward(x);
  }
  for (const auto& block : middle_) go_on(block);
  for (std::size_t i = up_.size(); i-- > 0;) {
    for (const auto& block : up_[i]) {
      x = apply(block, x, skips.back());
      skips.pop_back();
    }
    if (i == 0) break;
    x = grow_[i - 1]->forward(x);
  }
  x = apply(merge_, smooth_->forward(x), skips.back());
  return head_->forward_bordered(head_norm_->forward(x).out, {head_->bias(x.scalar_type())});
}

}  // namespace slift
