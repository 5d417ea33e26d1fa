#include "nets/backbone.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/testing.h"
#include "nets/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kWindow = 2, kLabel = 3;

// Sets the number of threads, back again at the end.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// One test for each family of the registry.
class EveryBackbone : public testing::TestWithParam<std::string> {
 protected:
  EveryBackbone() {
    const auto& all = backbone_registry();
    entry_ = *std::find_if(all.begin(), all.end(),
                           [](const BackboneEntry& e) { return e.name == GetParam(); });
    config_.kind = entry_.name;
    config_.window = kWindow;
    ConfigSchema schema;
    config_.bind(schema);
    for (const std::string& setting : entry_.quick) schema.apply_setting(setting);
  }
  std::shared_ptr<Backbone> make(std::int64_t label = kLabel) const {
    return make_backbone(config_, {entry_.quick_state, kWindow, label});
  }
  // {leading..., state...}
  std::vector<std::int64_t> with_state(std::vector<std::int64_t> leading) const {
    leading.insert(leading.end(), entry_.quick_state.begin(), entry_.quick_state.end());
    return leading;
  }

  BackboneEntry entry_;
  NetConfig config_;
};

TEST_P(EveryBackbone, InitialWeightsAreAFunctionOfTheSeed) {
  const auto a = make(), b = make();
  {
    const Threads one(1);
    a->initialise(7);
  }
  const Threads two(2);
  b->initialise(8);
  b->initialise(7);
  const auto pa = a->named_parameters(), pb = b->named_parameters();
  for (const auto& item : pa) {
    EXPECT_TRUE(at::equal(item.value(), pb[item.key()])) << item.key();
  }
  b->initialise(8);
  std::set<float> first;
  for (const auto& item : pa) {
    if (item.value().dim() < 2) continue;
    EXPECT_FALSE(at::equal(item.value(), pb[item.key()])) << item.key();
    // No two weights start with the same stream of numbers.
    const float scaled = (item.value().flatten()[0] / item.value().flatten()[1]).item<float>();
    EXPECT_TRUE(first.insert(scaled).second) << item.key();
  }
}

TEST_P(EveryBackbone, RowsDoNotDependOnTheBatch) {
  const auto net = make();
  net->initialise(1);
  const Tensor window = normals(with_state({5, kWindow}), 0), label = normals({5, kLabel}, 1);
  const Tensor all = net->forward(window, label);
  ASSERT_EQ(all.sizes(), with_state({5}));
  EXPECT_TRUE(all.is_contiguous());
  for (std::int64_t i = 0; i < 5; ++i) {
    const Tensor one = net->forward(window.narrow(0, i, 1), label.narrow(0, i, 1));
    EXPECT_LT((one[0] - all[i]).abs().max().item<double>(), 1e-6) << i;
  }
}

TEST_P(EveryBackbone, LabelAndEveryStateOfTheWindowMatter) {
  const auto net = make();
  net->initialise(1);
  const Tensor window = normals(with_state({1, kWindow}), 0), label = normals({1, kLabel}, 1);
  const Tensor out = net->forward(window, label);
  const auto change = [&](const Tensor& w, const Tensor& l) {
    return (net->forward(w, l) - out).abs().max().item<double>();
  };
  for (std::int64_t i = 0; i < kWindow; ++i) {
    Tensor moved = window.clone();
    moved[0][i] *= 2;
    EXPECT_GT(change(moved, label), 1e-3) << i;
  }
  for (std::int64_t i = 0; i < kLabel; ++i) {
    Tensor moved = label.clone();
    moved[0][i] += 1;
    EXPECT_GT(change(window, moved), 1e-3) << i;
  }
}

TEST_P(EveryBackbone, AllWeightsHaveGradientsFromTheStart) {
  for (const std::int64_t labels : {kLabel, std::int64_t{0}}) {
    const auto net = make(labels);
    net->initialise(1);
    net->forward(normals(with_state({3, kWindow}), 0), normals({3, labels}, 1))
        .square()
        .sum()
        .backward();
    for (const auto& item : net->named_parameters()) {
      if (item.value().dim() < 2) continue;
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 1e-8) << item.key();
    }
  }
}

TEST_P(EveryBackbone, WrongShapesAreABugOfTheCaller) {
  const auto net = make();
  net->initialise(1);
  const Tensor window = at::zeros(with_state({5, kWindow})), label = at::zeros({5, kLabel});
  EXPECT_NO_THROW(net->forward(window, label));
  EXPECT_THROW(net->forward(at::zeros(with_state({5, kWindow + 1})), label), c10::Error);
  EXPECT_THROW(net->forward(at::zeros(with_state({5})), label), c10::Error);
  EXPECT_THROW(net->forward(window.narrow(2, 0, 1), label), c10::Error);
  EXPECT_THROW(net->forward(window, at::zeros({5, kLabel + 1})), c10::Error);
  EXPECT_THROW(net->forward(window, at::zeros({4, kLabel})), c10::Error);
  EXPECT_THROW(net->forward(window, at::zeros({kLabel})), c10::Error);
}

TEST_P(EveryBackbone, KeysOfOtherFamiliesAreRefused) {
  EXPECT_FALSE(entry_.summary.empty());
  NetConfig defaults;
  ConfigSchema schema;
  defaults.bind(schema);
  for (const std::string& key : entry_.keys) {
    EXPECT_TRUE(schema.to_json().at("net").contains(key)) << key;
  }
  for (const BackboneEntry& other : backbone_registry()) {
    if (other.name == entry_.name) continue;
    NetConfig theirs;
    ConfigSchema settings;
    theirs.bind(settings);
    for (const std::string& setting : other.quick) settings.apply_setting(setting);
    theirs.kind = entry_.name;
    const std::string error = error_of([&] {
      make_backbone(theirs, {entry_.quick_state, kWindow, kLabel});
    });
    EXPECT_NE(error.find("is a key of net.kind = " + other.name), std::string::npos) << error;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const BackboneEntry& entry : backbone_registry()) all.push_back(entry.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryBackbone, testing::ValuesIn(names()),
                         [](const auto& name) { return name.param; });

TEST(Backbones, NamesAreUniqueAndUnknownOnesNameTheNearest) {
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  NetConfig net;
  net.kind = "mpl";
  EXPECT_EQ(error_of([&] {
              make_backbone(net, {{2}, 1, 0});
            }),
            "net.kind: unknown network mpl; the nearest is mlp");
}

TEST(Backbones, AnMlpDoesNotTakeFields) {
  const std::string error = error_of([] { make_backbone(NetConfig{}, {{1, 8, 8}, 1, 0}); });
  EXPECT_NE(error.find("net.kind"), std::string::npos) << error;
}

}  // namespace
}  // namespace slift
