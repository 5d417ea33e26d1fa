// Random walks and their evaluation; for *_test.cc only.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/testing.h"
#include "metrics/evaluation.h"

namespace slift {

inline constexpr std::int64_t kSteps = 6;

inline TrajectoryInfo walk_info(std::int64_t members, std::int64_t steps,
                                std::vector<std::int64_t> state_shape) {
  TrajectoryInfo info;
  info.members = members, info.steps = steps, info.state_shape = std::move(state_shape);
  info.dt = 0.5;
  info.system = "walk";
  return info;
}

// Random walks: state t is a sum of t + 1 standard normals. Member i is the same for every count.
inline std::vector<float> walks(const TrajectoryInfo& info, std::uint64_t seed) {
  std::vector<float> states;
  const auto size = static_cast<std::size_t>(info.state_size());
  for (std::int64_t m = 0; m < info.members; ++m) {
    std::vector<float> one(static_cast<std::size_t>(info.trajectory_size()));
    fill_normal({seed, Purpose::kSystemNoise, static_cast<std::uint64_t>(m), 0}, one);
    for (std::size_t i = size; i < one.size(); ++i) one[i] += one[i - size];
    states.insert(states.end(), one.begin(), one.end());
  }
  return states;
}

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override { Progress::set_enabled(false); }
  void TearDown() override { Progress::set_enabled(true); }

  TrajectoryReader write(const std::string& name, const TrajectoryInfo& info,
                         const std::vector<float>& states) {
    TrajectoryWriter writer(folder_ / name, info);
    writer.write(0, info.members, states);
    writer.commit();
    return TrajectoryReader(folder_ / name);
  }
  TrajectoryReader write_walks(const std::string& name, const TrajectoryInfo& info,
                               std::uint64_t seed) {
    return write(name, info, walks(info, seed));
  }

  // The error of comparing, which must name `culprit`.
  std::string error_of(const TrajectoryReader& generated, const TrajectoryReader& truth,
                       const std::string& culprit) {
    try {
      evaluate(generated, truth, {});
    } catch (const UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find((folder_ / culprit).string()), std::string::npos) << text;
      return text;
    }
    ADD_FAILURE() << "must throw";
    return "";
  }

  TestFolder folder_;
};

}  // namespace slift
