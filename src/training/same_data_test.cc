#include "training/same_data.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/testing.h"

namespace slift {
namespace {

ModelSpec make_spec() {
  ModelSpec spec;
  spec.state_shape = {2};
  spec.normaliser = {{0.1f, 0.2f}, {1.3f, 1.0f / 3}, {1, 2}};
  spec.system = "duffing";
  spec.dt = 0.1;
  spec.fields = {"x", "v"};
  spec.data = {{"path", "a.h5"}, {"members", 8}, {"steps", 15}, {"seed", std::uint64_t{1} << 63}};
  return spec;
}

std::string error_after(const std::function<void(ModelSpec&)>& change) {
  // As a checkpoint has it: through text.
  const ModelSpec started =
      ModelSpec::from_json(nlohmann::json::parse(make_spec().to_json().dump()), "model");
  ModelSpec now = make_spec();
  change(now);
  return error_of([&] { require_same_data(started, now, "runs/a"); });
}

TEST(SameData, PathsAndSettingsMayDiffer) {
  EXPECT_EQ(error_after([](ModelSpec&) {}), "");
  EXPECT_EQ(error_after([](ModelSpec& s) { s.data["path"] = "b.h5", s.config = {{"a", 1}}; }), "");
}

TEST(SameData, WhatDiffersIsNamed) {
  const auto names = [](const std::string& error, const std::string& part) {
    return error.find("runs/a: the data are not those this run was trained on: " + part) == 0;
  };
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.data["members"] = 9; }),
                    "members was 8, now it is 9"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.data["steps"] = 16; }), "steps"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.data["seed"] = 1; }), "seed"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.state_shape = {3}; }), "state_shape"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.dt = 0.2; }), "dt"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.system = "wave"; }), "system"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.fields = {"x", "w"}; }), "fields"));
  EXPECT_TRUE(names(error_after([](ModelSpec& s) { s.normaliser.std[1] = 0.34f; }), "std"));
}

}  // namespace
}  // namespace slift
