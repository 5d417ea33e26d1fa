// Kernels on tensor cores against their definition: mixing, thin convolutions, and all ways in
// which convolutions are divided into tiles.
#include <fmt/format.h>

#include "kernels/cuda/thin_convolution.h"
#include "kernels/cuda/tile_convolution.h"
#include "testing.h"

namespace slift {
namespace {

using kernels::BFloat16;
using kernels::cuda::ConvOperands;
using kernels::cuda::ConvPass;
using kernels::cuda::ConvProblem;
using kernels::cuda::ConvShape;
using kernels::cuda::Tiling;

constexpr double kRounding = 4e-3;  // of the result to bfloat16, in units of the largest

// A field [batch, height, width, channels]; outside it zeros, or its images if it is periodic.
struct Field {
  std::int64_t height, width, channels;
  const Numbers& values;
  bool periodic = false;

  float at(std::int64_t sample, std::int64_t y, std::int64_t x, std::int64_t c) const {
    if (periodic) {
      y = (y + height) % height;
      x = (x + width) % width;
    }
    if (y < 0 || y >= height || x < 0 || x >= width) return 0;
    return values[static_cast<std::size_t>(((sample * height + y) * width + x) * channels + c)];
  }
};

// Operands of a problem, and what its pass gives.
struct EmulatedConvolution {
  explicit EmulatedConvolution(const ConvProblem& p) : problem(p) {
    const ConvShape& s = p.shape;
    const std::int64_t mixed = p.mixed_a + p.mixed_b, cells = s.out_height() * s.out_width();
    const std::int64_t out = s.batch * cells * s.outputs,
                       in = s.batch * s.height * s.width * s.inputs;
    const bool backward = p.pass == ConvPass::kInputGradient;
    w = drawn(s.outputs * s.kernel * s.kernel * s.inputs, 1);
    if (backward) {
      y = drawn(out, 0);
    } else {
      x = drawn(in, 0);
    }
    residual = drawn(p.residual ? (backward ? in : out) : 0, 2);
    bias = drawn(p.bias ? s.outputs : 0, 3);
    a = drawn(s.batch * cells * p.mixed_a, 4);
    b = drawn(s.batch * cells * p.mixed_b, 5);
    mixed_w = drawn(s.outputs * mixed, 6);
    want = backward ? input_gradient() : forward();
  }

  // By kernels that take the operands and write into `result`.
  template <typename Run>
  std::vector<BFloat16> run(const Run& kernel) const {
    const bool backward = problem.pass == ConvPass::kInputGradient;
    auto result = unwritten<BFloat16>(static_cast<std::int64_t>(want.size()));
    std::vector<std::vector<BFloat16>> rounded;
    for (const Numbers* n : {&x, &w, &y, &residual, &bias, &a, &b, &mixed_w}) {
      rounded.push_back(as<BFloat16>(*n));
    }
    ConvOperands operands{};
    operands.x = backward ? result.data() : rounded[0].data();
    operands.w = rounded[1].data();
    operands.y = backward ? rounded[2].data() : result.data();
    operands.residual = data_of(rounded[3]);
    operands.bias = data_of(rounded[4]);
    operands.mixed_a = data_of(rounded[5]);
    operands.mixed_b = data_of(rounded[6]);
    operands.mixed_w = data_of(rounded[7]);
    kernel(operands);
    return result;
  }

  Numbers forward() const {
    const ConvShape& s = problem.shape;
    const std::int64_t height = s.out_height(), width = s.out_width();
    const Field from{s.height, s.width, s.inputs, x, problem.periodic};
    const Field of_a{height, width, problem.mixed_a, a}, of_b{height, width, problem.mixed_b, b};
    const Field more{height, width, s.outputs, residual};
    const std::int64_t mixed = problem.mixed_a + problem.mixed_b;
    // Four fields as one: row 2 v + i, column 2 u + j of field 2 i + j is cell (u + j, v + i).
    const std::int64_t each = problem.grows ? 2 : 1, less = each - 1,
                       outputs = s.outputs / (each * each);
    Numbers result;
    for (std::int64_t n = 0; n < s.batch; ++n) {
      for (std::int64_t row = 0; row < each * (height - less); ++row) {
        for (std::int64_t column = 0; column < each * (width - less); ++column) {
          const std::int64_t i = row % each, j = column % each;
          const std::int64_t v = row / each + i, u = column / each + j;
          for (std::int64_t o = 0; o < outputs; ++o) {
            const std::int64_t k = (each * i + j) * outputs + o;
            double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(k)];
            if (!residual.empty()) sum += more.at(n, v, u, k);
            for (std::int64_t cell = 0; cell < s.kernel * s.kernel; ++cell) {
              const std::int64_t yy = v * s.stride + cell / s.kernel - s.border;
              const std::int64_t xx = u * s.stride + cell % s.kernel - s.border;
              for (std::int64_t c = 0; c < s.inputs; ++c) {
                sum += double{from.at(n, yy, xx, c)} * weight(k, cell, c);
              }
            }
            for (std::int64_t c = 0; c < mixed; ++c) {
              const float value =
                  c < problem.mixed_a ? of_a.at(n, v, u, c) : of_b.at(n, v, u, c - problem.mixed_a);
              sum += double{value} * mixed_w[static_cast<std::size_t>(k * mixed + c)];
            }
            result.push_back(static_cast<float>(sum));
          }
        }
      }
    }
    return result;
  }

  // Of stride 1.
  Numbers input_gradient() const {
    const ConvShape& s = problem.shape;
    const Field from{s.out_height(), s.out_width(), s.outputs, y, problem.periodic};
    const Field more{s.height, s.width, s.inputs, residual};
    Numbers result;
    for (std::int64_t n = 0; n < s.batch; ++n) {
      for (std::int64_t v = 0; v < s.height; ++v) {
        for (std::int64_t u = 0; u < s.width; ++u) {
          for (std::int64_t c = 0; c < s.inputs; ++c) {
            double sum = residual.empty() ? 0 : more.at(n, v, u, c);
            for (std::int64_t cell = 0; cell < s.kernel * s.kernel; ++cell) {
              const std::int64_t yy = v - cell / s.kernel + s.border,
                                 xx = u - cell % s.kernel + s.border;
              for (std::int64_t k = 0; k < s.outputs; ++k) {
                sum += double{from.at(n, yy, xx, k)} * weight(k, cell, c);
              }
            }
            result.push_back(static_cast<float>(sum));
          }
        }
      }
    }
    return result;
  }

  float weight(std::int64_t output, std::int64_t cell, std::int64_t c) const {
    const ConvShape& s = problem.shape;
    return w[static_cast<std::size_t>((output * s.kernel * s.kernel + cell) * s.inputs + c)];
  }

  ConvProblem problem;
  Numbers x, w, y, residual, bias, a, b, mixed_w, want;
};

TEST(EmulatedThinConvolution, AgreesWithItsDefinition) {
  struct ThinCase {
    ConvShape shape;  // batch, inputs, height, width, outputs, kernel, stride, border
    bool bias;
  };
  for (const auto& [shape, bias] : {ThinCase{{2, 16, 5, 20, 40, 3, 1, 1}, true},
                                    {{1, 16, 9, 17, 8, 3, 1, 0}, false},
                                    {{3, 16, 1, 1, 64, 3, 1, 1}, true},
                                    {{2, 16, 4, 6400, 8, 3, 1, 1}, true},  // on in the next sample
                                    {{2, 40, 7, 33, 8, 3, 1, 1}, true},
                                    {{1, 72, 4, 64, 8, 3, 1, 0}, false}}) {
    ConvProblem problem{shape};
    problem.bias = bias;
    ASSERT_TRUE(can_convolve_thin(problem));
    const EmulatedConvolution c(problem);
    const auto got = c.run([&](const ConvOperands& o) { convolve_thin(problem, o, nullptr); });
    expect_close(got, c.want, kRounding, fmt::format("{} x {}", shape.height, shape.width));
  }
}

TEST(EmulatedMix, AgreesWithItsDefinition) {
  struct Sizes {
    std::int64_t rows, inputs_a, inputs_b, outputs;
  };
  for (const auto& [rows, inputs_a, inputs_b, outputs] :
       {Sizes{1, 64, 0, 32}, {700, 24, 40, 64}, {300, 128, 128, 128}, {129, 40, 88, 32}}) {
    const std::int64_t inputs = inputs_a + inputs_b;
    const Numbers a = drawn(rows * inputs_a, 0), b = drawn(rows * inputs_b, 1);
    const Numbers weight = drawn(outputs * inputs, 2);
    Numbers want;
    const Field of_a{1, rows, inputs_a, a}, of_b{1, rows, inputs_b, b};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < outputs; ++k) {
        double sum = 0;
        for (std::int64_t c = 0; c < inputs; ++c) {
          const float x = c < inputs_a ? of_a.at(0, 0, r, c) : of_b.at(0, 0, r, c - inputs_a);
          sum += double{x} * weight[static_cast<std::size_t>(k * inputs + c)];
        }
        want.push_back(static_cast<float>(sum));
      }
    }
    const auto rounded_a = as<BFloat16>(a), rounded_b = as<BFloat16>(b), w = as<BFloat16>(weight);
    auto out = unwritten<BFloat16>(rows * outputs);
    kernels::cuda::mix({rows, inputs_a, inputs_b, outputs, rounded_a.data(), data_of(rounded_b),
                        w.data(), out.data()},
                       nullptr);
    expect_close(out, want, kRounding, fmt::format("{} rows", rows));
  }
}

struct TileCase {
  const char* name;
  ConvShape shape;  // batch, inputs, height, width, outputs, kernel, stride, border
  bool bias = false, residual = false;
  std::int64_t mixed_a = 0, mixed_b = 0;
  bool periodic = false, grows = false, backward = false;

  friend void PrintTo(const TileCase& c, std::ostream* out) { *out << c.name; }
};

const TileCase kTileCases[] = {
    {.name = "one_cell", .shape = {1, 64, 1, 1, 64, 3, 1, 1}, .bias = true, .residual = true},
    {.name = "odd_size", .shape = {1, 128, 9, 19, 64, 3, 1, 1}, .bias = true, .residual = true},
    {.name = "no_border", .shape = {2, 64, 18, 10, 64, 3, 1, 0}},
    {.name = "two_fields",
     .shape = {1, 128, 8, 16, 128, 3, 1, 1},
     .bias = true,
     .mixed_a = 128,
     .mixed_b = 64},
    {.name = "one_by_one", .shape = {1, 128, 17, 8, 64, 1, 1, 0}, .residual = true},
    {.name = "stride_two", .shape = {1, 64, 19, 36, 128, 3, 2, 1}, .bias = true},
    {.name = "growing", .shape = {1, 64, 9, 5, 256, 2, 1, 1}, .bias = true, .grows = true},
    {.name = "periodic",
     .shape = {1, 64, 18, 32, 64, 3, 1, 1},
     .bias = true,
     .residual = true,
     .periodic = true},
    {.name = "gradient", .shape = {1, 128, 9, 17, 64, 3, 1, 1}, .residual = true, .backward = true},
    {.name = "gradient_without_border", .shape = {1, 64, 10, 19, 128, 3, 1, 0}, .backward = true},
    {.name = "periodic_gradient",
     .shape = {1, 64, 9, 32, 64, 3, 1, 1},
     .periodic = true,
     .backward = true},
};

class EmulatedTiles : public testing::TestWithParam<TileCase> {};

TEST_P(EmulatedTiles, AgreeWithTheDefinition) {
  const TileCase& given = GetParam();
  ConvProblem problem{given.shape};
  problem.pass = given.backward ? ConvPass::kInputGradient : ConvPass::kForward;
  problem.bias = given.bias;
  problem.residual = given.residual;
  problem.mixed_a = given.mixed_a;
  problem.mixed_b = given.mixed_b;
  problem.periodic = given.periodic;
  problem.grows = given.grows;
  const std::vector<Tiling> all = tilings(problem);
  ASSERT_FALSE(all.empty());
  const EmulatedConvolution c(problem);
  for (const Tiling& tiling : all) {
    const auto got =
        c.run([&](const ConvOperands& o) { convolve_tiles(problem, tiling, o, nullptr); });
    expect_close(got, c.want, kRounding,
                 fmt::format("{} x {}, split {}", tiling.rows, tiling.outputs, tiling.split));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedTiles, testing::ValuesIn(kTileCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace slift
