#include "nets/transition_model.h"

#include <torch/autograd.h>

#include "core/errors.h"
#include "tensor/runtime.h"
#include "tensor/safetensors.h"

namespace slift {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "slift-model";
constexpr int kVersion = 1;

Tensor per_channel(const std::vector<float>& values, std::size_t state_rank) {
  std::vector<std::int64_t> shape(state_rank, 1);
  shape[0] = static_cast<std::int64_t>(values.size());
  return at::tensor(values, at::kFloat).view(shape);
}

}  // namespace

json ModelSpec::to_json() const {
  NetConfig copy = net;
  ConfigSchema schema;
  copy.bind(schema);
  return {{"format", kFormat},
          {"version", kVersion},
          {"net", schema.to_json().at("net")},
          {"state_shape", state_shape},
          {"label", {{"dimension", label_dimension}, {"kind", label_kind}}},
          {"normaliser", normaliser.to_json()},
          {"system", system},
          {"boundary", boundary},
          {"dt", dt},
          {"fields", fields},
          {"data", data},
          {"config", config}};
}

ModelSpec ModelSpec::from_json(const json& object, const std::string& source) {
  require(object.is_object() && object.value("format", json()) == kFormat,
          "{}: not a slift model file", source);
  const json version = object.value("version", json());
  require(version == kVersion, "{}: model version must be {}, got {}", source, kVersion,
          version.dump());
  ModelSpec spec;
  try {
    ConfigSchema schema;
    spec.net.bind(schema);
    schema.apply_json({{"net", object.at("net")}}, source);
    spec.state_shape = object.at("state_shape").get<std::vector<std::int64_t>>();
    spec.label_dimension = object.at("label").at("dimension").get<std::int64_t>();
    spec.label_kind = object.at("label").at("kind").get<std::string>();
    spec.normaliser = Normaliser::from_json(object.at("normaliser"));
    spec.system = object.at("system").get<std::string>();
    spec.boundary = object.at("boundary").get<std::string>();
    spec.dt = object.at("dt").get<double>();
    spec.fields = object.at("fields").get<std::vector<std::string>>();
    spec.data = object.at("data");
    spec.config = object.at("config");
  } catch (const json::exception& error) {
    fail("{}: broken model description: {}", source, error.what());
  }
  const bool rank_fits = spec.state_shape.size() == 1 || spec.state_shape.size() == 3;
  require(rank_fits && spec.label_dimension >= 0 && spec.state_shape[0] > 0 &&
              spec.normaliser.mean.size() == static_cast<std::size_t>(spec.state_shape[0]) &&
              spec.normaliser.std.size() == spec.normaliser.mean.size() &&
              spec.normaliser.delta_std.size() == spec.normaliser.mean.size(),
          "{}: broken model description: shapes do not fit together", source);
  return spec;
}

TransitionModel::TransitionModel(ModelSpec spec) : spec_(std::move(spec)) {
  backbone_ =
      make_backbone(spec_.net, {spec_.state_shape, spec_.net.window, spec_.label_dimension});
  const std::size_t rank = spec_.state_shape.size();
  scales_.mean = per_channel(spec_.normaliser.mean, rank);
  scales_.std = per_channel(spec_.normaliser.std, rank);
  const bool direct = spec_.net.output == "direct";
  if (direct) scales_.offset = scales_.mean;
  scales_.scale = direct ? scales_.std : per_channel(spec_.normaliser.delta_std, rank);
}

Tensor TransitionModel::base(const Tensor& window) const {
  return scales_.offset.defined() ? scales_.offset : window.select(1, -1);
}

Tensor TransitionModel::scaled_output(const Tensor& window, const Tensor& label) const {
  return backbone_->forward((window - scales_.mean) / scales_.std, label);
}

Tensor TransitionModel::scaled_target(const Tensor& window, const Tensor& next) const {
  return (next - base(window)) / scales_.scale;
}

Tensor TransitionModel::forward(const Tensor& window, const Tensor& label) const {
  return base(window) + scales_.scale * scaled_output(window, label);
}

void TransitionModel::advance(const Tensor& window, const Tensor& label) const {
  backbone_->advance(window, label, scales_);
}

void TransitionModel::to(const at::Device& device) {
  backbone_->to(device);
  // The layout convolutions on a GPU want; all that is like the parameters follows.
  for (Tensor& p : backbone_->parameters()) {
    if (device.is_cuda() && p.dim() == 4) {
      p.set_data(p.data().contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  for (Tensor* scale : {&scales_.mean, &scales_.std, &scales_.offset, &scales_.scale}) {
    if (scale->defined()) *scale = scale->to(device);
  }
  backbone_->weights().invalidate();
}

void TransitionModel::check_precision(const std::string& precision) const {
  const bool fp8 = precision == "fp8";
  require(fp8 || precision == "fp32" || precision == "tf32" || precision == "bf16",
          "precision must be fp32, tf32, bf16 or fp8, got {}", precision);
  if (fp8) backbone_->require_fp8();
  require(precision == "fp32" || device().is_cuda(), "precision {} needs --device cuda", precision);
  require(!fp8 || multiplies_fp8(device()),
          "precision fp8 needs a GPU of compute capability 8.9 or more");
}

void TransitionModel::set_precision(const std::string& precision) {
  check_precision(precision);
  const bool fp8 = precision == "fp8";
  backbone_->use_fp8(fp8);
  backbone_->set_compute_type(fp8 || precision == "bf16" ? at::kBFloat16 : at::kFloat);
  allow_tf32(precision == "tf32");
  precision_ = precision;
}

std::int64_t TransitionModel::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& p : backbone_->parameters()) count += p.numel();
  return count;
}

void save_model(const std::filesystem::path& path, const TransitionModel& model) {
  SafeTensors content;
  content.metadata["slift"] = model.spec().to_json().dump();
  std::size_t i = 0;
  for (const auto& item : model.backbone().named_parameters()) {
    content.tensors[item.key()] = model.backbone().weights().best().at(i++);
  }
  write_safetensors(path, content);
}

namespace {

ModelSpec spec_in(const std::map<std::string, std::string>& metadata,
                  const std::filesystem::path& path) {
  const auto text = metadata.find("slift");
  require(text != metadata.end(), "{}: not a slift model file", path.string());
  return ModelSpec::from_json(json::parse(text->second, nullptr, false), path.string());
}

}  // namespace

ModelSpec read_model_spec(const std::filesystem::path& path) {
  return spec_in(read_safetensors_header(path).metadata, path);
}

TransitionModel load_model(const std::filesystem::path& path) {
  const SafeTensors content = read_safetensors(path);
  TransitionModel model(spec_in(content.metadata, path));
  torch::NoGradGuard no_grad;
  for (auto& item : model.backbone().named_parameters()) {
    const Tensor& stored = content.at(item.key(), path.string());
    require(stored.sizes() == item.value().sizes() && stored.scalar_type() == at::kFloat,
            "{}: tensor {} does not have the shape the network needs", path.string(), item.key());
    require(at::isfinite(stored).all().item<bool>(), "{}: tensor {} has non-finite values",
            path.string(), item.key());
    item.value().copy_(stored);
  }
  return model;
}

}  // namespace slift
