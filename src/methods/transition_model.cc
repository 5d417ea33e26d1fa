#include "methods/transition_model.h"

#include <torch/autograd.h>

#include "core/errors.h"
#include "tensor/runtime.h"
#include "tensor/safetensors.h"

namespace slift {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "slift-model";
constexpr int kVersion = 2;
constexpr int kLiftingOnly = 1;  // before there were methods: "label" instead of "method"

Tensor per_channel(const std::vector<float>& values, std::size_t state_rank) {
  std::vector<std::int64_t> shape(state_rank, 1);
  shape[0] = static_cast<std::int64_t>(values.size());
  return at::tensor(values, at::kFloat).view(shape);
}

}  // namespace

json ModelSpec::to_json() const {
  NetConfig net_copy = net;
  MethodConfig method_copy = method;
  ConfigSchema net_schema, method_schema;
  net_copy.bind(net_schema);
  method_copy.bind(method_schema);
  return {{"format", kFormat},
          {"version", kVersion},
          {"net", net_schema.to_json().at("net")},
          {"state_shape", state_shape},
          {"method", method_schema.to_json()},
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
  require(version == kVersion || version == kLiftingOnly,
          "{}: model version must be {} or {}, got {}", source, kLiftingOnly, kVersion,
          version.dump());
  ModelSpec spec;
  try {
    ConfigSchema schema;
    spec.net.bind(schema);
    schema.apply_json({{"net", object.at("net")}}, source);
    spec.state_shape = object.at("state_shape").get<std::vector<std::int64_t>>();
    ConfigSchema method_schema;
    spec.method.bind(method_schema);
    method_schema.apply_json(
        version == kLiftingOnly ? json{{"lifting", object.at("label")}} : object.at("method"),
        source);
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
  require(rank_fits && spec.state_shape[0] > 0 &&
              spec.normaliser.mean.size() == static_cast<std::size_t>(spec.state_shape[0]) &&
              spec.normaliser.std.size() == spec.normaliser.mean.size() &&
              spec.normaliser.delta_std.size() == spec.normaliser.mean.size(),
          "{}: broken model description: shapes do not fit together", source);
  return spec;
}

TransitionModel::TransitionModel(ModelSpec spec) : spec_(std::move(spec)) {
  method_ = make_method(spec_.method, spec_.state_shape, spec_.net.window);
  const std::optional<BackboneShape> shape = method_->backbone_shape();
  if (shape) backbone_ = make_backbone(spec_.net, *shape);
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

TrainingBatch TransitionModel::training_batch(const Tensor& window, const Tensor& next,
                                              const Tensor& transition, const Tensor& iteration,
                                              std::uint64_t seed) const {
  return {(window - scales_.mean) / scales_.std,
          (next - base(window)) / scales_.scale,
          transition,
          iteration,
          seed,
          per_trajectory()};
}

std::int64_t TransitionModel::per_trajectory() const {
  return spec_.data.is_object() ? spec_.data.value("steps", std::int64_t{2}) - 1 : 1;
}

Tensor TransitionModel::forward(const Tensor& window, const Tensor& numbers) const {
  const Tensor scaled = (window - scales_.mean) / scales_.std;
  return base(window) + scales_.scale * method_->sample(network(), scaled, numbers);
}

void TransitionModel::advance(const Tensor& window, const Tensor& numbers) const {
  method_->advance(network(), window, numbers, scales_);
}

void TransitionModel::fit(const TrajectoryReader& reader, std::int64_t members) {
  const std::int64_t steps = reader.info().steps, m = spec_.net.window;
  method_->fit([&](const std::function<void(const Tensor&, const Tensor&)>& body) {
    for_each_chunk(reader, members, [&](auto, auto count, std::span<const float> values) {
      std::vector<std::int64_t> shape = {count, steps};
      shape.insert(shape.end(), spec_.state_shape.begin(), spec_.state_shape.end());
      const Tensor states = at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat);
      for (std::int64_t t = 0; t + 1 < steps; ++t) {
        const Tensor before = at::arange(t - m + 1, t + 1, at::kLong).clamp_min(0);
        const TrainingBatch batch =
            training_batch(states.index_select(1, before), states.select(1, t + 1), {}, {}, 0);
        body(batch.window, batch.target);
      }
    });
  });
}

void TransitionModel::sync() const {
  if (backbone_) backbone_->sync();
}

void TransitionModel::to(const at::Device& device) {
  if (backbone_) {
    backbone_->to(device);
    // The layout convolutions on a GPU want; all that is like the parameters follows.
    for (Tensor& p : backbone_->parameters()) {
      if (device.is_cuda() && p.dim() == 4) {
        p.set_data(p.data().contiguous(at::MemoryFormat::ChannelsLast));
      }
    }
    backbone_->weights().invalidate();
  }
  for (const auto& [name, tensor] : method_->tensors()) *tensor = tensor->to(device);
  for (Tensor* scale : {&scales_.mean, &scales_.std, &scales_.offset, &scales_.scale}) {
    if (scale->defined()) *scale = scale->to(device);
  }
}

void TransitionModel::check_precision(const std::string& precision) const {
  const bool fp8 = precision == "fp8";
  require(fp8 || precision == "fp32" || precision == "tf32" || precision == "bf16",
          "precision must be fp32, tf32, bf16 or fp8, got {}", precision);
  if (fp8) {
    require(network() != nullptr, "precision fp8 is for methods with a network");
    backbone_->require_fp8();
  }
  require(precision == "fp32" || device().is_cuda(), "precision {} needs --device cuda", precision);
  require(!fp8 || multiplies_fp8(device()),
          "precision fp8 needs a GPU of compute capability 8.9 or more");
}

void TransitionModel::set_precision(const std::string& precision) {
  check_precision(precision);
  const bool fp8 = precision == "fp8";
  if (backbone_) {
    backbone_->use_fp8(fp8);
    backbone_->set_compute_type(fp8 || precision == "bf16" ? at::kBFloat16 : at::kFloat);
  }
  allow_tf32(precision == "tf32");
  precision_ = precision;
}

std::int64_t TransitionModel::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors()) count += tensor.numel();
  return count;
}

std::vector<std::pair<std::string, Tensor>> TransitionModel::tensors() const {
  std::vector<std::pair<std::string, Tensor>> all;
  if (backbone_) {
    for (const auto& item : backbone_->named_parameters()) {
      all.emplace_back(item.key(), backbone_->weights().best().at(all.size()));
    }
  }
  for (const auto& [name, tensor] : method_->tensors()) all.emplace_back("method." + name, *tensor);
  return all;
}

void save_model(const std::filesystem::path& path, const TransitionModel& model) {
  SafeTensors content;
  content.metadata["slift"] = model.spec().to_json().dump();
  for (const auto& [name, tensor] : model.tensors()) content.tensors[name] = tensor;
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
  for (auto& [name, tensor] : model.tensors()) {
    const Tensor& stored = content.at(name, path.string());
    require(stored.sizes() == tensor.sizes() && stored.scalar_type() == at::kFloat,
            "{}: tensor {} does not have the shape the network needs", path.string(), name);
    require(at::isfinite(stored).all().item<bool>(), "{}: tensor {} has non-finite values",
            path.string(), name);
    tensor.copy_(stored);
  }
  return model;
}

}  // namespace slift
