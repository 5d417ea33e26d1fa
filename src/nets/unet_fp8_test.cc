// UNets in precision fp8: on the CPU by the same code with LibTorch's convolutions.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "core/testing.h"
#include "nets/testing.h"
#include "nets/unet.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

NetConfig fp8_config(std::vector<std::int64_t> widths, const std::string& padding = "zeros") {
  NetConfig net;
  net.kind = "unet";
  net.widths = std::move(widths);
  net.padding = padding;
  net.label_width = 32;
  return net;
}

constexpr const char* kNotCalibrated = "precision fp8 needs a network that was calibrated";

// A net, inputs to calibrate it on and inputs to compare with.
class UnetInFp8 {
 public:
  UnetInFp8(const at::Device& device, const std::string& padding)
      : net_(fp8_config({32, 64}, padding), {{2, 8, 12}, 2, 5}) {
    net_.initialise(1);
    net_.to(device);
    net_.set_compute_type(device.is_cuda() ? at::kBFloat16 : at::kFloat);
    for (std::uint64_t i = 0; i < 2; ++i) {
      windows_.push_back(normals({4, 2, 2, 8, 12}, 2 * i).to(device));
      labels_.push_back(normals({4, 5}, 2 * i + 1).to(device));
    }
  }
  void calibrate() {
    net_.calibrate([this] { forward(0); });
  }
  Tensor forward(std::size_t i) {
    torch::NoGradGuard no_grad;
    return net_.forward(windows_[i], labels_[i]);
  }
  // Of the difference, in units of the output's standard deviation.
  static double distance(const Tensor& a, const Tensor& b) {
    return root_mean_square(a - b) / b.std().item<double>();
  }
  Unet& net() { return net_; }

 private:
  Unet net_;
  std::vector<Tensor> windows_, labels_;
};

class UnetFp8 : public testing::TestWithParam<at::Device> {};

TEST_P(UnetFp8, IsNearWhatItRounds) {
  for (const std::string padding : {"zeros", "circular"}) {
    UnetInFp8 unet(GetParam(), padding);
    const Tensor before = unet.forward(1);
    unet.calibrate();
    EXPECT_TRUE(at::equal(unet.forward(1), before)) << "calibration alone changes nothing";
    unet.net().use_fp8(true);
    const Tensor rounded = unet.forward(1);
    // Some 3 % in each of 18 convolutions; a wrong scale of one of them would be as large as it.
    EXPECT_GT(UnetInFp8::distance(rounded, before), 0.005) << padding;
    EXPECT_LT(UnetInFp8::distance(rounded, before), 0.15) << padding;
    EXPECT_TRUE(at::equal(unet.forward(1), rounded)) << padding;
    unet.net().use_fp8(false);
    EXPECT_TRUE(at::equal(unet.forward(1), before)) << padding;
  }
}

TEST_P(UnetFp8, FollowsItsParameters) {
  UnetInFp8 unet(GetParam(), "zeros");
  unet.calibrate();
  unet.net().use_fp8(true);
  const Tensor before = unet.forward(1);
  unet.net().initialise(2);
  const Tensor rounded = unet.forward(1);
  unet.net().use_fp8(false);
  EXPECT_GT(UnetInFp8::distance(before, unet.forward(1)), 0.5);
  EXPECT_LT(UnetInFp8::distance(rounded, unet.forward(1)), 0.15);
}

TEST_P(UnetFp8, NormsRecordTheirLargestResult) {
  NormActivation norm(16, {.activation = "gelu", .circular = true});
  norm.initialise(0, 0);
  norm.to(GetParam());
  torch::NoGradGuard no_grad;
  double largest = 0;
  norm.begin_recording();
  for (const double spread : {1.0, 0.0, 0.3}) {
    // Film of (a, b) = (0, -5 spread): results from about -0.2 to 5.
    const Tensor film = at::cat({at::zeros({2, 16}), at::full({2, 16}, -5 * spread)}, 1);
    const Tensor x = normals({2, 16, 3, 5}, 0).pow(3).to(GetParam());
    const Tensor out = norm.forward(x, {}, film.to(GetParam())).out;
    largest = std::max(largest, out.abs().max().item<double>());
  }
  norm.end_recording();
  EXPECT_EQ(norm.largest(), largest);
  norm.forward(100 * at::ones({2, 16, 3, 5}, GetParam()), {},
               at::full({2, 32}, 9.0f, at::TensorOptions(GetParam())));
  EXPECT_EQ(norm.largest(), largest) << "recording has ended";
  // All results are gelu(-1): what counts is the size.
  norm.begin_recording();
  norm.forward(at::ones({2, 16, 3, 5}, GetParam()), {},
               at::cat({at::zeros({2, 16}), at::full({2, 16}, -1.0f)}, 1).to(GetParam()));
  norm.end_recording();
  EXPECT_NEAR(norm.largest(), 0.1588, 1e-4);
}

TEST_P(UnetFp8, NumbersThatAreNotFiniteAreNoCalibration) {
  UnetInFp8 unet(GetParam(), "zeros");
  const auto calibrate_on = [&](double value) {
    return error_of([&] {
      unet.net().calibrate([&] {
        torch::NoGradGuard no_grad;
        unet.net().forward(at::full({1, 2, 2, 8, 12}, value, GetParam()),
                           at::zeros({1, 5}, GetParam()));
      });
    });
  };
  EXPECT_EQ(calibrate_on(1), "");
  EXPECT_EQ(calibrate_on(NAN), "precision fp8: the network's numbers are not finite");
  EXPECT_EQ(error_of([&] { unet.net().use_fp8(true); }), kNotCalibrated);
}

INSTANTIATE_TEST_SUITE_P(Devices, UnetFp8, testing::ValuesIn(test_devices()), DeviceName());

TEST(Fp8Precision, NeedsConvolutionsWideEnoughAndACalibration) {
  Unet narrow(fp8_config({16, 24}), {{1, 8, 8}, 1, 0});
  const std::string widths = "precision fp8 needs net.widths that are multiples of 16, got 24";
  EXPECT_EQ(error_of([&] { narrow.require_fp8(); }), widths);
  EXPECT_EQ(error_of([&] { narrow.calibrate([] { FAIL(); }); }), widths);

  const auto mlp = make_backbone(NetConfig(), {{2}, 1, 0});
  const std::string none = "precision fp8 is for networks with convolutions, this one has none";
  EXPECT_EQ(error_of([&] { mlp->require_fp8(); }), none);
  EXPECT_EQ(error_of([&] { mlp->calibrate([] { FAIL(); }); }), none);
  EXPECT_EQ(error_of([&] { mlp->use_fp8(true); }), none);
  EXPECT_EQ(error_of([&] { mlp->use_fp8(false); }), "");

  Unet unet(fp8_config({16}), {{1, 8, 8}, 1, 0});
  EXPECT_EQ(error_of([&] { unet.require_fp8(); }), "");
  EXPECT_EQ(error_of([&] { unet.use_fp8(true); }), kNotCalibrated);
}

}  // namespace
}  // namespace slift
