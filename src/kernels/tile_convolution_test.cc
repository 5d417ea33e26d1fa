// Convolutions to whose sums a 1 x 1 convolution of other fields is added, those of framed fields,
// and every way in which the kernel for both divides its work (cuda/tile_convolution.h).
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <array>
#include <cmath>

#include "kernels/ops.h"
#include "tensor/runtime.h"
#include "tensor/test_devices.h"
#ifdef SLIFT_WITH_CUDNN
#include "kernels/cuda/tile_convolution.h"
#include "kernels/kernel_choice.h"
#endif

namespace slift {
namespace {

constexpr auto kMixedLayout = at::MemoryFormat::ChannelsLast;

struct MixedCase {
  const char* name;
  std::int64_t batch, inputs, outputs, height, width, kernel, border;
  std::int64_t mixed_a, mixed_b;  // channels; 0: none
  bool bias, residual;
  std::int64_t stride = 1;
};

// Tiles have 16 columns and 8 or 16 rows, and take 64 channels at a time.
constexpr MixedCase kMixedCases[] = {
    {"plain", 2, 64, 64, 16, 16, 3, 1, 0, 0, false, false},
    {"one cell", 1, 64, 64, 1, 1, 3, 1, 0, 0, true, true},
    {"odd size", 3, 128, 64, 19, 37, 3, 1, 0, 0, true, false},
    {"no border", 2, 128, 128, 18, 21, 3, 0, 0, 0, true, true},
    {"three chunks", 2, 192, 128, 9, 17, 3, 1, 0, 0, false, true},
    {"1 x 1", 2, 128, 64, 10, 18, 1, 0, 0, 0, true, true},
    {"2 x 2", 2, 128, 256, 6, 15, 2, 1, 0, 0, true, false},
    {"two fields", 2, 128, 128, 17, 20, 3, 1, 128, 64, true, false},
    {"one field", 3, 64, 128, 8, 16, 3, 1, 192, 0, false, false},
    {"two fields, no border", 1, 128, 64, 33, 18, 3, 0, 64, 192, true, false},
    {"many tiles", 5, 64, 64, 70, 65, 3, 1, 64, 64, true, false},
    {"odd channels", 2, 24, 16, 7, 9, 3, 1, 8, 16, true, false},
    {"stride 2", 2, 64, 128, 32, 64, 3, 1, 0, 0, true, false, 2},
    {"stride 2, odd size", 3, 128, 64, 21, 39, 3, 1, 0, 0, false, false, 2},
    {"stride 2, no border", 2, 192, 64, 18, 36, 3, 0, 0, 0, true, false, 2},
};

// Rounded to `type`, and what they give in float64.
struct MixedOperands {
  MixedOperands(const MixedCase& c, at::ScalarType type) {
    auto draw = [type, seed = 1](const std::vector<std::int64_t>& shape) mutable {
      at::manual_seed(static_cast<std::uint64_t>(seed++));
      return at::randn(shape, at::kDouble).to(type).to(at::kDouble);
    };
    const std::int64_t rows = (c.height + 2 * c.border - c.kernel) / c.stride + 1;
    const std::int64_t columns = (c.width + 2 * c.border - c.kernel) / c.stride + 1;
    x = draw({c.batch, c.inputs, c.height, c.width});
    weight = draw({c.outputs, c.inputs, c.kernel, c.kernel});
    expected = at::conv2d(x, weight, {}, c.stride, c.border);
    if (c.bias) expected = expected + (bias = draw({c.outputs})).view({1, -1, 1, 1});
    if (c.residual) expected = expected + (residual = draw({c.batch, c.outputs, rows, columns}));
    if (c.mixed_a + c.mixed_b == 0) return;
    a = draw({c.batch, c.mixed_a, rows, columns});
    if (c.mixed_b > 0) b = draw({c.batch, c.mixed_b, rows, columns});
    mixed_weight = draw({c.outputs, c.mixed_a + c.mixed_b, 1, 1});
    const Tensor both = b.defined() ? at::cat({a, b}, 1) : a;
    expected = expected + at::conv2d(both, mixed_weight);
  }
  Tensor x, weight, bias, residual, a, b, mixed_weight, expected;
};

// There in that type, fields channels-last; an undefined one remains so.
Tensor mixed_to(const Tensor& t, const at::Device& device, at::ScalarType type) {
  if (!t.defined()) return t;
  const Tensor there = t.to(device, type);
  return there.dim() == 4 ? there.contiguous(kMixedLayout) : there;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  return ((found.cpu().to(at::kDouble) - expected).abs().max() / expected.abs().max())
      .item<double>();
}

TEST(MixedConvolution, AddsBothConvolutions) {
  allow_tf32(false);
  for (const at::Device& device : test_devices()) {
    const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
    for (const MixedCase& c : kMixedCases) {
      const MixedOperands full(c, type);
      const auto here = [&](const Tensor& t) { return mixed_to(t, device, type); };
      const ops::ConvolutionArgs args{
          .weight = here(full.weight),
          .bias = here(full.bias),
          .residual = here(full.residual),
          .mixed = {here(full.a), here(full.b), here(full.mixed_weight)},
          .stride = c.stride,
          .border = c.border};
      for (const bool gradients : {true, false}) {
        const c10::AutoGradMode mode(gradients);
        const Tensor out = ops::convolution(here(full.x), args);
        EXPECT_TRUE(out.is_contiguous(kMixedLayout)) << c.name;
        EXPECT_LT(relative_error(out, full.expected), device.is_cuda() ? 2e-2 : 1e-5)
            << c.name << " on " << device;
      }
    }
  }
}

TEST(MixedConvolution, HasGradients) {
  for (const at::Device& device : test_devices()) {
    const MixedCase& c = kMixedCases[7];
    const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
    const MixedOperands full(c, type);
    const auto leaf = [&](const Tensor& t) { return mixed_to(t, device, type).requires_grad_(); };
    const Tensor x = leaf(full.x), weight = leaf(full.weight), bias = leaf(full.bias);
    const ops::MixArgs mixed{leaf(full.a), leaf(full.b), leaf(full.mixed_weight)};
    const Tensor grad = at::randn_like(full.expected).to(type).to(at::kDouble);
    ops::convolution(x, {.weight = weight, .bias = bias, .mixed = mixed, .border = c.border})
        .backward(mixed_to(grad, device, type));
    // By definition: of 1 x 1 convolutions they are products of matrices.
    const auto rows = [](const Tensor& t) { return t.permute({0, 2, 3, 1}).flatten(0, 2); };
    const Tensor to_mixed = rows(grad).t().mm(rows(at::cat({full.a, full.b}, 1)));
    const Tensor matrix = full.mixed_weight.flatten(1);
    const Tensor to_a = rows(grad).mm(matrix.narrow(1, 0, c.mixed_a));
    const Tensor to_b = rows(grad).mm(matrix.narrow(1, c.mixed_a, c.mixed_b));
    const double bound = device.is_cuda() ? 2e-2 : 1e-5;
    EXPECT_LT(relative_error(mixed.weight.grad().flatten(1), to_mixed), bound) << device;
    EXPECT_LT(relative_error(rows(mixed.a.grad()), to_a), bound) << device;
    EXPECT_LT(relative_error(rows(mixed.b.grad()), to_b), bound) << device;
    EXPECT_LT(relative_error(bias.grad(), grad.sum({0, 2, 3})), bound) << device;
    const Tensor wide = full.x.clone().requires_grad_();
    at::conv2d(wide, full.weight, {}, 1, c.border).backward(grad);
    EXPECT_LT(relative_error(x.grad(), wide.grad()), bound) << device;
  }
}

TEST(GrowingConvolution, IsTheFieldThatInterleaveGivesAndHasItsGradients) {
  for (const at::Device& device : test_devices()) {
    const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
    const double bound = device.is_cuda() ? 2e-2 : 1e-5;
    for (const auto& [inputs, outputs, height, width, border] : {std::array{64, 64, 16, 16, 1},
                                                                 {128, 128, 9, 21, 1},
                                                                 {192, 64, 34, 18, 0},
                                                                 {16, 8, 5, 6, 1}}) {
      // Rounded to that type: here, and in float64.
      const auto pair = [&](at::IntArrayRef shape) {
        const Tensor here = mixed_to(at::randn(shape), device, type);
        return std::pair{here.requires_grad_(), here.detach().cpu().to(at::kDouble).clone()};
      };
      at::manual_seed(7);
      const auto [x, wide_x] = pair({3, inputs, height, width});
      const auto [weight, wide_weight] = pair({4 * outputs, inputs, 2, 2});
      const auto [bias, wide_bias] = pair({4 * outputs});
      for (const Tensor& t : {wide_x, wide_weight, wide_bias}) t.requires_grad_();
      const ops::ConvolutionArgs args{
          .weight = weight, .bias = bias, .border = border, .grows = true};
      const Tensor expected =
          ops::interleave(at::conv2d(wide_x, wide_weight, wide_bias, 1, border));
      const Tensor out = ops::convolution(x, args);
      EXPECT_TRUE(out.is_contiguous(kMixedLayout));
      EXPECT_LT(relative_error(out, expected), bound)
          << inputs << " to " << outputs << ", " << device;
      const auto [grad, wide_grad] = pair(expected.sizes());
      out.backward(grad.detach());
      expected.backward(wide_grad);
      EXPECT_LT(relative_error(x.grad(), wide_x.grad()), bound) << inputs << ", " << device;
      EXPECT_LT(relative_error(weight.grad(), wide_weight.grad()), bound)
          << inputs << ", " << device;
      EXPECT_LT(relative_error(bias.grad(), wide_bias.grad()), bound) << inputs << ", " << device;
      const c10::AutoGradMode without(false);
      EXPECT_LT(relative_error(ops::convolution(x, args), expected), bound)
          << inputs << ", " << device;
    }
  }
}

TEST(MixedConvolution, TakesOneResidual) {
  const Tensor x = at::zeros({1, 8, 3, 3}), weight = at::zeros({8, 8, 3, 3});
  const ops::MixArgs mixed{x, {}, at::zeros({8, 8, 1, 1})};
  EXPECT_THROW(ops::convolution(x, {.weight = weight, .residual = x, .mixed = mixed, .border = 1}),
               c10::Error);
}

// A norm and the convolution behind it, on a torus.
struct NormConv {
  NormConv(std::int64_t inputs, std::int64_t outputs, std::int64_t height, std::int64_t width) {
    at::manual_seed(3);
    const auto draw = [](const std::vector<std::int64_t>& shape) {
      return at::randn(shape, at::kDouble).to(at::kBFloat16).to(at::kDouble);
    };
    operands = {draw({3, inputs, height, width}), draw({inputs}), draw({inputs}),
                draw({outputs, inputs, 3, 3}) / 16};
    grad = draw({3, outputs, height, width});
  }

  // The result and the gradients of the operands.
  std::vector<Tensor> run(const at::Device& device, at::ScalarType type, bool framed) const {
    std::vector<Tensor> leaves;
    for (const Tensor& t : operands) {
      leaves.push_back(mixed_to(t, device, type).clone().requires_grad_());
    }
    const ops::Normed normed = ops::norm_activation({.f = kernels::Activation::kGelu,
                                                     .groups = 8,
                                                     .a = leaves[0],
                                                     .scale = leaves[1],
                                                     .shift = leaves[2],
                                                     .border = true,
                                                     .framed = framed});
    const Tensor out = ops::convolution(normed.out, {.weight = leaves[3], .framed = framed});
    out.backward(mixed_to(grad, device, type));
    std::vector<Tensor> results = {out.detach()};
    for (const Tensor& t : leaves) results.push_back(t.grad());
    return results;
  }

  std::vector<Tensor> operands;
  Tensor grad;
};

TEST(FramedField, GivesTheGradientsOfThePeriodicField) {
  for (const auto& [inputs, outputs, height, width] :
       {std::array{64, 64, 16, 16}, {64, 128, 13, 32}, {192, 64, 5, 48}, {128, 256, 33, 16}}) {
    const NormConv net(inputs, outputs, height, width);
    const std::vector<Tensor> expected = net.run(at::kCPU, at::kDouble, false);
    for (const at::Device& device : test_devices()) {
      const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
      const bool takes =
          ops::takes_framed(mixed_to(net.operands[0], device, type), inputs, outputs);
      if (device.is_cpu()) {
        EXPECT_FALSE(takes);
      }
      for (const bool framed : {false, takes}) {
        const std::vector<Tensor> found = net.run(device, type, framed);
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_LT(relative_error(found[i], expected[i]), device.is_cuda() ? 2e-2 : 1e-5)
              << i << " of " << inputs << " to " << outputs << (framed ? ", framed" : "");
        }
      }
    }
  }
}

TEST(FramedField, IsRefusedWithoutAFrame) {
  for (const at::Device& device : test_devices()) {
    const auto there = at::TensorOptions(device).dtype(at::kBFloat16);
    const Tensor x = at::zeros({1, 64, 16, 16}, there), weight = at::zeros({64, 64, 3, 3}, there);
    EXPECT_THROW(ops::convolution(x, {.weight = weight, .framed = true}), c10::Error) << device;
  }
}

#ifdef SLIFT_WITH_CUDNN
TEST(TileConvolution, EveryTilingOfAGrowingOneAgreesWithFloat64) {
  using namespace kernels::cuda;
  for (const at::Device& device : test_devices()) {
    if (device.is_cpu() || !gpu_runs_tiles()) continue;
    at::manual_seed(9);
    const Tensor x = mixed_to(at::randn({3, 128, 19, 33}), device, at::kBFloat16);
    const Tensor weight = mixed_to(at::randn({512, 128, 2, 2}), device, at::kBFloat16);
    const Tensor expected = ops::interleave(
        at::conv2d(x.cpu().to(at::kDouble), weight.cpu().to(at::kDouble), {}, 1, 1));
    ConvProblem problem{{3, 128, 19, 33, 512, 2, 1, 1}};
    problem.grows = true;
    const std::vector<Tiling> found = tilings(problem);
    EXPECT_FALSE(found.empty());
    for (const Tiling& tiling : found) {
      const Tensor out = at::empty(expected.sizes(), x.options(), kMixedLayout).fill_(std::nan(""));
      convolve_tiles(problem, tiling, {x.data_ptr(), weight.data_ptr(), out.data_ptr()},
                     ops::current_stream());
      EXPECT_LT(relative_error(out, expected), 2e-2)
          << tiling.rows << " rows, " << tiling.outputs << " outputs, split " << tiling.split;
    }
  }
}

TEST(TileConvolution, EveryTilingAgreesWithFloat64) {
  using namespace kernels::cuda;
  for (const at::Device& device : test_devices()) {
    if (device.is_cpu() || !gpu_runs_tiles()) continue;
    for (const MixedCase& c : kMixedCases) {
      const MixedOperands full(c, at::kBFloat16);
      const auto there = [&](const Tensor& t) { return mixed_to(t, device, at::kBFloat16); };
      const Tensor x = there(full.x), weight = there(full.weight), bias = there(full.bias);
      const Tensor residual = there(full.residual), a = there(full.a), b = there(full.b);
      const Tensor mixed_weight = there(full.mixed_weight);
      ConvProblem problem{
          {c.batch, c.inputs, c.height, c.width, c.outputs, c.kernel, c.stride, c.border},
          ConvPass::kForward,
          c.residual,
          c.bias};
      problem.mixed_a = c.mixed_a;
      problem.mixed_b = c.mixed_b;
      const std::vector<Tiling> found = tilings(problem);
      EXPECT_EQ(found.empty(), c.inputs % 64 != 0) << c.name;
      Tensor first[3];  // by split
      for (const Tiling& tiling : found) {
        const Tensor out =
            at::empty(full.expected.sizes(), x.options(), kMixedLayout).fill_(std::nan(""));
        ConvOperands operands{x.data_ptr(), weight.data_ptr(), out.data_ptr()};
        const auto data = [](const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; };
        operands.residual = data(residual);
        operands.bias = data(bias);
        operands.mixed_a = data(a);
        operands.mixed_b = data(b);
        operands.mixed_w = data(mixed_weight);
        convolve_tiles(problem, tiling, operands, ops::current_stream());
        EXPECT_LT(relative_error(out, full.expected), 2e-2)
            << c.name << ": " << tiling.rows << " rows, " << tiling.outputs << " outputs, split "
            << tiling.split;
        Tensor& same = first[tiling.split];
        if (same.defined()) {
          EXPECT_TRUE(out.equal(same)) << c.name;
        } else {
          same = out;
        }
      }
    }
  }
}

TEST(TileConvolution, EveryTilingOfAGradientAgreesWithFloat64) {
  using namespace kernels::cuda;
  struct Case {
    std::int64_t inputs, outputs, height, width, border;
    bool periodic;
  };
  for (const at::Device& device : test_devices()) {
    if (device.is_cpu() || !gpu_runs_tiles()) continue;
    for (const Case& c : {Case{64, 64, 16, 16, 1, false},
                          {128, 64, 19, 37, 1, false},
                          {64, 192, 9, 18, 0, false},
                          {128, 128, 16, 16, 1, true},
                          {64, 128, 37, 32, 1, true},
                          {256, 256, 8, 48, 1, true}}) {
      at::manual_seed(5);
      const Tensor weight = at::randn({c.outputs, c.inputs, 3, 3}, at::kDouble).to(at::kBFloat16);
      const std::int64_t change = 2 * c.border - 2;
      const Tensor grad =
          at::randn({3, c.outputs, c.height + change, c.width + change}, at::kDouble)
              .to(at::kBFloat16);
      Tensor x = at::zeros({3, c.inputs, c.height, c.width}, at::kDouble).requires_grad_();
      const Tensor in = c.periodic ? ops::pad_circular(x) : x;
      at::conv2d(in, weight.to(at::kDouble), {}, 1, c.periodic ? 0 : c.border)
          .backward(grad.to(at::kDouble));
      ConvProblem problem{{3, c.inputs, c.height, c.width, c.outputs, 3, 1, c.border},
                          ConvPass::kInputGradient};
      problem.periodic = c.periodic;
      const std::vector<Tiling> found = tilings(problem);
      EXPECT_FALSE(found.empty());
      const Tensor w = mixed_to(weight, device, at::kBFloat16);
      const Tensor y = mixed_to(grad, device, at::kBFloat16);
      for (const Tiling& tiling : found) {
        const Tensor out = at::empty(x.sizes(), y.options(), kMixedLayout).fill_(std::nan(""));
        convolve_tiles(problem, tiling, {out.data_ptr(), w.data_ptr(), y.data_ptr()},
                       ops::current_stream());
        EXPECT_LT(relative_error(out, x.grad()), 2e-2)
            << problem.key() << ": " << tiling.rows << " rows, " << tiling.outputs
            << " outputs, split " << tiling.split;
      }
    }
  }
}
#endif

}  // namespace
}  // namespace slift
