#include "methods/transition_model.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/cuda.h>

#include <cmath>
#include <functional>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/testing.h"
#include "tensor/safetensors.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// States of 2 components, window 2, label dimension 1, scales that are powers of two so that the
// identities below are exact. `layers` = 0 makes the network one affine map.
ModelSpec make_spec(const std::string& output, std::int64_t layers) {
  ModelSpec spec;
  spec.net.window = 2;
  spec.net.output = output;
  spec.net.layers = layers;
  spec.net.width = 8;
  spec.state_shape = {2};
  spec.method.lifting.dimension = 1;
  spec.normaliser = {{1.0f, -2.0f}, {4.0f, 0.5f}, {0.25f, 8.0f}};
  spec.system = "duffing";
  spec.boundary = "none";
  spec.dt = 0.2;
  spec.fields = {"x", "v"};
  spec.data = {{"path", "data.h5"}};
  spec.config = {{"seed", 3}};
  return spec;
}

const Tensor& window() {
  static const Tensor value = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({1, 2, 2});
  return value;
}
const Tensor& label() {
  static const Tensor value = at::tensor({0.5f}).view({1, 1});
  return value;
}

// output = weight [2, 5] applied to (old x, old v, last x, last v, label) + bias.
TransitionModel affine_model(const std::string& output, const std::vector<float>& weight,
                             const std::vector<float>& bias) {
  TransitionModel model(make_spec(output, 0));
  torch::NoGradGuard no_grad;
  auto params = model.backbone().named_parameters();
  params["weight0"].copy_(at::tensor(weight).view({2, 5}));
  params["bias0"].copy_(at::tensor(bias));
  return model;
}

TrainingBatch in_units_of_the_loss(const TransitionModel& model, const Tensor& next) {
  return model.training_batch(window(), next, at::zeros({1}, at::kLong), {}, 0);
}

Tensor scaled_output(const TransitionModel& model) {
  const TrainingBatch batch = in_units_of_the_loss(model, at::zeros({1, 2}));
  return model.method().sample(model.network(), batch.window, label());
}

void expect_row(const Tensor& got, float first, float second) {
  ASSERT_EQ(got.sizes(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(got[0][0].item<float>(), first);
  EXPECT_EQ(got[0][1].item<float>(), second);
}

TEST(TransitionModel, NetworkSeesTheNormalisedWindowOldestFirstThenTheLabel) {
  // (1-1)/4 = 0, (2+2)/0.5 = 8, (3-1)/4 = 0.5, (4+2)/0.5 = 12, label 0.5.
  const auto picks = [](std::size_t a, std::size_t b) {
    std::vector<float> weight(10, 0.0f);
    weight[a] = 1;
    weight[5 + b] = 1;
    return scaled_output(affine_model("residual", weight, {0, 0}));
  };
  expect_row(picks(0, 1), 0.0f, 8.0f);
  expect_row(picks(2, 3), 0.5f, 12.0f);
  expect_row(picks(4, 4), 0.5f, 0.5f);
}

TEST(TransitionModel, ResidualAddsTheScaledStepToTheLastState) {
  const TransitionModel model = affine_model("residual", std::vector<float>(10, 0.0f), {2, -1});
  // (3, 4) + (0.25, 8) * (2, -1).
  expect_row(model.forward(window(), label()), 3.5f, -4.0f);
}

TEST(TransitionModel, DirectScalesTheOutputBack) {
  const TransitionModel model = affine_model("direct", std::vector<float>(10, 0.0f), {2, -1});
  // (1, -2) + (4, 0.5) * (2, -1).
  expect_row(model.forward(window(), label()), 9.0f, -2.5f);
}

TEST(TransitionModel, ForwardIsBuiltFromTheScaledOutput) {
  const Tensor scale = at::tensor({0.25f, 8.0f}), std = at::tensor({4.0f, 0.5f}),
               mean = at::tensor({1.0f, -2.0f});
  TransitionModel residual(make_spec("residual", 2)), direct(make_spec("direct", 2));
  residual.backbone().initialise(1);
  direct.backbone().initialise(1);
  const Tensor out = scaled_output(residual);
  EXPECT_TRUE(at::equal(out, scaled_output(direct)));
  EXPECT_GT(out.abs().min().item<float>(), 0);
  EXPECT_TRUE(at::equal(residual.forward(window(), label()), window().select(1, -1) + scale * out));
  EXPECT_TRUE(at::equal(direct.forward(window(), label()), mean + std * out));
}

TEST(TransitionModel, ScaledTargetIsTheOutputThatGivesTheNextState) {
  const Tensor next = at::tensor({-7.0f, 2.5f}).view({1, 2});
  for (const std::string output : {"residual", "direct"}) {
    TransitionModel model = affine_model(output, std::vector<float>(10, 0.0f), {0, 0});
    const Tensor target = in_units_of_the_loss(model, next).target;
    expect_row(target, output == "residual" ? -40.0f : -2.0f,
               output == "residual" ? -0.1875f : 9.0f);
    torch::NoGradGuard no_grad;
    model.backbone().named_parameters()["bias0"].copy_(target[0]);
    EXPECT_TRUE(at::equal(model.forward(window(), label()), next)) << output;
  }
}

TEST(TransitionModel, CountsItsParameters) {
  // (5 + 1) * 8 + (8 + 1) * 8 + (8 + 1) * 2.
  EXPECT_EQ(TransitionModel(make_spec("direct", 2)).parameter_count(), 138);
}

class ModelFile : public testing::Test {
 protected:
  ModelFile() {
    model_.backbone().initialise(4);
    save_model(path_, model_);
  }

  // What load_model says to the file after `change`; empty if it loads.
  std::string error_after(const std::function<void(SafeTensors&)>& change) const {
    SafeTensors content = read_safetensors(path_);
    change(content);
    const fs::path broken = folder_ / "broken.safetensors";
    write_safetensors(broken, content);
    try {
      load_model(broken);
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(broken.string()), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }
  std::string error_after_spec(const std::function<void(json&)>& change) const {
    return error_after([&](SafeTensors& content) {
      json spec = json::parse(content.metadata.at("slift"));
      change(spec);
      content.metadata["slift"] = spec.dump();
    });
  }

  TestFolder folder_;
  fs::path path_ = folder_ / "model.safetensors";
  TransitionModel model_{make_spec("residual", 2)};
};

TEST_F(ModelFile, RoundTripIsExact) {
  const TransitionModel back = load_model(path_);
  EXPECT_EQ(back.spec().to_json(), model_.spec().to_json());
  const auto a = model_.backbone().named_parameters(), b = back.backbone().named_parameters();
  ASSERT_EQ(a.size(), 6u);
  ASSERT_EQ(b.size(), a.size());
  for (const auto& item : a) EXPECT_TRUE(at::equal(item.value(), b[item.key()])) << item.key();
  EXPECT_TRUE(at::equal(back.forward(window(), label()), model_.forward(window(), label())));
  save_model(folder_ / "again", back);
  EXPECT_TRUE(read_file(folder_ / "again") == read_file(path_));
}

TEST_F(ModelFile, AveragedWeightsStandInForTheModels) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> ema = model_.backbone().weights().keep_average();
  for (Tensor& average : ema) average.add_(1);
  save_model(path_, model_);
  const TransitionModel back = load_model(path_);
  const auto params = back.backbone().parameters();
  for (std::size_t i = 0; i < ema.size(); ++i) EXPECT_TRUE(at::equal(params[i], ema[i])) << i;
}

// With each family of networks.
TEST_F(ModelFile, HoldsEveryNetwork) {
  for (const BackboneEntry& entry : backbone_registry()) {
    ModelSpec spec;
    spec.net.kind = entry.name;
    spec.net.window = 2;
    ConfigSchema schema;
    spec.net.bind(schema);
    for (const std::string& setting : entry.quick) schema.apply_setting(setting);
    spec.state_shape = entry.quick_state;
    spec.method.lifting.dimension = 3;
    const std::vector<float> ones(static_cast<std::size_t>(entry.quick_state[0]), 1.0f);
    spec.normaliser = {ones, ones, ones};
    TransitionModel model(spec);
    model.backbone().initialise(1);
    save_model(path_, model);
    const TransitionModel back = load_model(path_);
    std::vector<std::int64_t> shape = {2, 2};
    shape.insert(shape.end(), entry.quick_state.begin(), entry.quick_state.end());
    const Tensor states = at::arange(at::zeros(shape).numel()).to(at::kFloat).sin().view(shape);
    const Tensor numbers = at::arange(6, at::kFloat).cos().view({2, 3});
    EXPECT_TRUE(at::equal(back.forward(states, numbers), model.forward(states, numbers)))
        << entry.name;
  }
}

// Files of before there were methods.
TEST_F(ModelFile, OfVersionOneIsOfLifting) {
  SafeTensors content = read_safetensors(path_);
  json spec = json::parse(content.metadata.at("slift"));
  spec["version"] = 1;
  spec["label"] = spec.at("method").at("lifting");
  spec.erase("method");
  spec["config"].erase("method");
  content.metadata["slift"] = spec.dump();
  const fs::path old = folder_ / "old.safetensors";
  write_safetensors(old, content);
  const TransitionModel back = load_model(old);
  EXPECT_EQ(back.spec().method.kind, "lifting");
  EXPECT_EQ(back.spec().method.lifting.dimension, 1);
  EXPECT_TRUE(at::equal(back.forward(window(), label()), model_.forward(window(), label())));
}

TEST(TransitionModel, Fp8IsForGpus) {
  ModelSpec spec;
  spec.net.kind = "unet";
  spec.net.widths = {16};
  spec.state_shape = {1, 8, 8};
  spec.normaliser = {{0}, {1}, {1}};
  TransitionModel model(spec);
  const std::string error = "precision fp8 needs --device cuda";
  EXPECT_EQ(error_of([&] { model.check_precision("fp8"); }), error);
  EXPECT_EQ(error_of([&] { model.set_precision("fp8"); }), error);
  EXPECT_EQ(model.precision(), "fp32");
  EXPECT_EQ(error_of([&] { model.check_precision("fp16"); }),
            "precision must be fp32, tf32, bf16 or fp8, got fp16");
#ifdef SLIFT_WITH_CUDA
  if (!torch::cuda::is_available()) return;
  model.backbone().initialise(1);
  model.to(at::Device(at::kCUDA, 0));
  EXPECT_EQ(error_of([&] { model.check_precision("fp8"); }), "");
  EXPECT_EQ(error_of([&] { model.set_precision("fp8"); }),
            "precision fp8 needs a network that was calibrated");
  EXPECT_EQ(model.precision(), "fp32");
#endif
}

TEST_F(ModelFile, BrokenTensorsAreNamed) {
  EXPECT_EQ(error_after([](SafeTensors&) {}), "");
  const auto names_weight = [&](const std::function<void(SafeTensors&)>& change) {
    return error_after(change).find("weight1") != std::string::npos;
  };
  EXPECT_TRUE(names_weight([](SafeTensors& c) { c.tensors.erase("weight1"); }));
  EXPECT_TRUE(names_weight([](SafeTensors& c) { c.tensors["weight1"] = at::zeros({8, 7}); }));
  EXPECT_TRUE(names_weight([](SafeTensors& c) { c.tensors["weight1"] = at::zeros({64}); }));
  EXPECT_TRUE(names_weight([](SafeTensors& c) {
    c.tensors["weight1"] = at::zeros({8, 8}, at::kDouble);
  }));
  EXPECT_TRUE(names_weight([](SafeTensors& c) { c.tensors["weight1"][3][4] = NAN; }));
  EXPECT_TRUE(names_weight([](SafeTensors& c) { c.tensors["weight1"][3][4] = INFINITY; }));
}

TEST_F(ModelFile, BrokenDescriptionsAreRefused) {
  EXPECT_NE(error_after([](SafeTensors& c) { c.metadata.clear(); }), "");
  EXPECT_NE(error_after([](SafeTensors& c) { c.metadata["slift"] = "{"; }), "");
  EXPECT_NE(error_after([](SafeTensors& c) { c.metadata["slift"] = "[]"; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["format"] = "other"; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["format"] = 3; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["version"] = 3; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["version"] = "1"; }), "");
  const json whole = model_.spec().to_json();
  for (const auto& item : whole.items()) {
    EXPECT_NE(error_after_spec([&](json& s) { s.erase(item.key()); }), "") << item.key();
  }
  EXPECT_NE(error_after_spec([](json& s) { s["net"]["kind"] = "mpl"; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["net"]["width"] = 0; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["net"]["widht"] = 8; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["state_shape"] = json::array(); }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["state_shape"] = {3}; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["state_shape"] = {2, 2}; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["method"]["lifting"]["dimension"] = -1; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["method"] = 3; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["normaliser"]["std"] = {1.0}; }), "");
  EXPECT_NE(error_after_spec([](json& s) { s["normaliser"]["mean"] = {1.0, nullptr}; }), "");
}

TEST_F(ModelFile, OtherFilesAreRefused) {
  write_file_atomically(folder_ / "text", "hello");
  EXPECT_THROW(load_model(folder_ / "text"), UserError);
  EXPECT_THROW(load_model(folder_ / "none"), UserError);
}

}  // namespace
}  // namespace slift
