#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "core/testing.h"
#include "nets/testing.h"
#include "rollout/rollout.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

constexpr std::int64_t kCells = 2 * 8 * 8;

TransitionModel unet_model(const at::Device& device) {
  ModelSpec spec;
  spec.net.kind = "unet";
  spec.net.window = 2;
  spec.net.widths = {16};
  spec.net.label_width = 16;
  spec.state_shape = {2, 8, 8};
  spec.method.lifting.dimension = 3;
  spec.normaliser = {{0, 0}, {1, 1}, {0.1f, 0.1f}};
  TransitionModel model(spec);
  model.backbone().initialise(1);
  model.to(device);
  return model;
}

class Calibration : public testing::TestWithParam<at::Device> {
 protected:
  // Random fields, 24 trajectories of 3 states. NaN is all of one state.
  TrajectoryReader write_fields(std::int64_t nan_member = -1, std::int64_t nan_step = 0) const {
    TrajectoryInfo info;
    info.members = 24;
    info.steps = 3;
    info.state_shape = {2, 8, 8};
    const Tensor states = normals({24, 3, kCells}, 1);
    if (nan_member >= 0) states[nan_member][nan_step].fill_(NAN);
    TrajectoryWriter writer(folder_ / "fields.h5", info);
    writer.write(0, 24, {states.data_ptr<float>(), static_cast<std::size_t>(states.numel())});
    writer.commit();
    return TrajectoryReader(folder_ / "fields.h5");
  }
  TestFolder folder_;
};

TEST_P(Calibration, IsOfTheFirstStatesOfSixteenTrajectories) {
  TransitionModel model = unet_model(GetParam());
  const auto error = [&](std::int64_t member, std::int64_t step) {
    const TrajectoryReader initial = write_fields(member, step);
    return error_of([&] { calibrate_rollout(model, initial, {.seed = 3}); });
  };
  EXPECT_EQ(error(-1, 0), "");
  EXPECT_NE(error(0, 0), "");
  EXPECT_NE(error(15, 0), "");
  EXPECT_EQ(error(16, 0), "");
  EXPECT_EQ(error(0, 1), "");
}

// What the whole ensemble follows from must not depend on the part of it that is computed.
TEST_P(Calibration, DoesNotDependOnTheMembersAskedFor) {
  torch::NoGradGuard no_grad;
  TransitionModel model = unet_model(GetParam());
  const TrajectoryReader initial = write_fields();
  const Tensor window = normals({2, 2, 2, 8, 8}, 2).to(GetParam());
  const Tensor label = normals({2, 3}, 3).to(GetParam());
  const auto calibrated = [&](const RolloutOptions& options) {
    calibrate_rollout(model, initial, options);
    model.backbone().set_compute_type(GetParam().is_cuda() ? at::kBFloat16 : at::kFloat);
    model.backbone().use_fp8(true);
    const Tensor out = model.forward(window, label);
    model.backbone().use_fp8(false);
    model.backbone().set_compute_type(at::kFloat);
    return out;
  };
  const Tensor out = calibrated({.members = 1, .seed = 3});
  EXPECT_TRUE(at::equal(calibrated({.members = 500,
                                    .steps = 9,
                                    .seed = 3,
                                    .first_initial = 5,
                                    .branches = 2,
                                    .first_member = 40,
                                    .every = 3,
                                    .first_window = true,
                                    .batch = 7,
                                    .chunk = 21}),
                        out));
  EXPECT_FALSE(at::equal(model.forward(window, label), out));
}

TEST_P(Calibration, RefusesStatesThatDoNotFit) {
  ModelSpec spec = unet_model(GetParam()).spec();
  spec.state_shape = {2, 4, 4};
  TransitionModel other(spec);
  const TrajectoryReader initial = write_fields();
  EXPECT_NE(error_of([&] { calibrate_rollout(other, initial, {}); }).find(initial.path()),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, Calibration, testing::ValuesIn(test_devices()), DeviceName());

}  // namespace
}  // namespace slift
