// Norms in both forms, in passes and in clusters, against the CPU's kernel.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "kernels/cuda/norm_cluster.h"
#include "testing.h"

namespace slift {
namespace {

using kernels::NormShape;
using kernels::cuda::ClusterPlan;
using kernels::cuda::NormForm;

struct EmulatedNorm {
  NormShape shape;
  bool bias = false, film = false;
  bool arrives_a = false, arrives_b = false, arrives_again = false;
  kernels::Activation f = kernels::Activation::kGelu;
  std::optional<NormShape> planned = {};  // run in clusters, with the plan of this shape
};

std::string describe(const EmulatedNorm& c) {
  const NormShape& s = c.shape;
  return fmt::format(
      "{} x {} x {}, {} + {} channels in {}, border {}, bias {}, film {}, arrives {} {} {}",
      s.batch, s.height, s.width, s.channels_a, s.channels_b, s.groups, s.border, c.bias, c.film,
      c.arrives_a, c.arrives_b, c.arrives_again);
}

// All arrays of a case, fields of type T.
template <typename T>
struct NormArrays {
  explicit NormArrays(const EmulatedNorm& c) : norm(c) {
    const NormShape& s = c.shape;
    const std::int64_t cells = s.batch * s.cells(), channels = s.channels();
    a = as<T>(drawn(cells * s.channels_a, 0, 0.5));
    b = as<T>(drawn(cells * s.channels_b, 1, -0.5));
    bias = drawn(c.bias ? channels : 0, 2);
    scale = drawn(channels, 3, 1, 0.3f);
    shift = drawn(channels, 4, 0, 0.3f);
    film = drawn(c.film ? s.batch * 2 * channels : 0, 5, 0, 0.3f);
    // With a mean, so that the parts that the statistics bring are as large as the others.
    from_out = as<T>(drawn(s.batch * s.out_cells() * channels, 6, 1));
    from_a = as<T>(drawn(c.arrives_a ? cells * s.channels_a : 0, 7));
    from_b = as<T>(drawn(c.arrives_b ? cells * s.channels_b : 0, 8));
    from_again = as<T>(drawn(c.arrives_again ? cells * s.channels_a : 0, 9));
    out = unwritten<T>(s.batch * s.out_cells() * channels);
    mean = unwritten<float>(s.batch * s.groups);
    rstd = unwritten<float>(s.batch * s.groups);
    grad_a = unwritten<T>(cells * s.channels_a);
    grad_b = unwritten<T>(cells * s.channels_b);
    grad_bias = unwritten<float>(c.bias ? s.batch * channels : 0);
    grad_scale = unwritten<float>(s.batch * channels);
    grad_shift = unwritten<float>(s.batch * channels);
    grad_film = unwritten<float>(static_cast<std::int64_t>(film.size()));
  }

  kernels::NormInputs<T> inputs() const {
    return {norm.shape,     norm.f,        data_of(a),
            data_of(b),     data_of(bias), data_of(scale),
            data_of(shift), data_of(film), norm.film ? 2 * norm.shape.channels() : 0};
  }
  kernels::NormOutputs<T> outputs() { return {data_of(out), data_of(mean), data_of(rstd)}; }
  kernels::NormArrivals<T> arrivals() const {
    return {data_of(from_out), data_of(from_a), data_of(from_b), data_of(from_again)};
  }
  kernels::NormGradients<T> gradients() {
    return {data_of(grad_a),     data_of(grad_b),     data_of(grad_bias),
            data_of(grad_scale), data_of(grad_shift), data_of(grad_film)};
  }

  EmulatedNorm norm;
  std::vector<T> a, b, from_out, from_a, from_b, from_again, out, grad_a, grad_b;
  Numbers bias, scale, shift, film, mean, rstd, grad_bias, grad_scale, grad_shift, grad_film;
};

// By the CPU's kernel.
NormArrays<float> computed_norm(const EmulatedNorm& c) {
  NormArrays<float> x(c);
  for (std::int64_t sample = 0; sample < c.shape.batch; ++sample) {
    const kernels::NormPart part{sample, 0, c.shape.groups};
    kernels::cpu::norm_activation(x.inputs(), part, x.outputs());
    kernels::cpu::norm_activation_backward(x.inputs(), part, x.mean.data(), x.rstd.data(),
                                           x.arrivals(), x.gradients());
  }
  return x;
}

template <typename T>
void run(NormArrays<T>& x, NormForm form) {
  namespace cuda = kernels::cuda;
  Numbers workspace = unwritten<float>(cuda::norm_workspace_size(x.norm.shape));
  const auto backward = [&](const auto& call) {
    call(x.inputs(), x.mean.data(), x.rstd.data(), x.arrivals(), x.gradients());
  };
  if (x.norm.planned) {
    const auto plan = cuda::plan_cluster(*x.norm.planned, sizeof(T));
    const auto back = cuda::plan_cluster_backward(*x.norm.planned, sizeof(T));
    ASSERT_TRUE(plan && back) << describe(x.norm);
    ASSERT_EQ(x.norm.shape.groups % plan->groups, 0) << describe(x.norm);
    ASSERT_EQ(x.norm.shape.groups % back->groups, 0) << describe(x.norm);
    cuda::norm_in_clusters(x.inputs(), x.outputs(), *plan, nullptr);
    backward(
        [&](const auto&... args) { cuda::norm_backward_in_clusters<T>(args..., *back, nullptr); });
  } else {
    cuda::norm_activation(x.inputs(), x.outputs(), workspace.data(), nullptr, form);
    backward([&](const auto&... args) {
      cuda::norm_activation_backward<T>(args..., workspace.data(), nullptr, form);
    });
  }
}

template <typename T>
void expect_as_computed(const EmulatedNorm& c, NormForm form) {
  const NormArrays<float> want = computed_norm(c);
  NormArrays<T> got(c);
  run(got, form);
  const std::string what = describe(c);
  const double bound = kBound<T>;
  expect_close(got.out, want.out, bound, "out " + what);
  expect_close(got.mean, want.mean, 1e-5, "mean " + what);
  expect_close(got.rstd, want.rstd, 1e-5, "rstd " + what);
  expect_close(got.grad_a, want.grad_a, bound, "gradient of a " + what);
  expect_close(got.grad_b, want.grad_b, bound, "gradient of b " + what);
  expect_close(got.grad_bias, want.grad_bias, bound, "gradient of bias " + what);
  expect_close(got.grad_scale, want.grad_scale, bound, "gradient of scale " + what);
  expect_close(got.grad_shift, want.grad_shift, bound, "gradient of shift " + what);
  expect_close(got.grad_film, want.grad_film, bound, "gradient of film " + what);
}

// What may be left out: bit 0 bias, 1 film, 2 border, 3 to 5 what arrives at a, at b and at a once
// more.
EmulatedNorm with(const NormShape& shape, unsigned given) {
  EmulatedNorm c{shape, (given & 1) != 0, (given & 2) != 0};
  c.shape.border = (given & 4) != 0;
  c.arrives_a = (given & 8) != 0;
  c.arrives_b = (given & 16) != 0 && shape.channels_b > 0;
  c.arrives_again = (given & 32) != 0;
  c.f = given % 3 == 0 ? kernels::Activation::kSilu : kernels::Activation::kGelu;
  return c;
}
constexpr unsigned kGiven[] = {0, 7, 26, 36, 63};

template <typename T>
void expect_all_as_computed(std::initializer_list<NormShape> shapes, NormForm form) {
  for (const NormShape& shape : shapes) {
    for (const unsigned given : kGiven) expect_as_computed<T>(with(shape, given), form);
  }
}

template <typename T>
class EmulatedNorms : public testing::Test {};
using NormTypes = testing::Types<float, kernels::BFloat16>;
TYPED_TEST_SUITE(EmulatedNorms, NormTypes);

// Groups of one and of several channels, within a source and across the border of both, sides of
// one cell, packs and single channels, several slabs.
TYPED_TEST(EmulatedNorms, InPasses) {
  expect_all_as_computed<TypeParam>({{2, 5, 7, 24, 0, 8},
                                     {1, 1, 1, 24, 0, 8},
                                     {2, 7, 1, 16, 8, 3},
                                     {2, 5, 7, 7, 17, 4},
                                     {1, 2, 5, 1032, 1024, 4},
                                     {1, 70, 70, 8, 0, 4}},
                                    NormForm::kPasses);
}

// As they are run where nothing is asked for: in clusters of one block.
TYPED_TEST(EmulatedNorms, InBlocks) {
  expect_all_as_computed<TypeParam>(
      {{2, 9, 7, 64, 0, 8}, {2, 1, 5, 40, 24, 4}, {2, 1, 1, 72, 0, 3}, {1, 5, 30, 32, 0, 4}},
      NormForm::kAuto);
}

TEST(EmulatedNormInFp8, IsTheOutputTimesItsGain) {
  for (const NormShape& shape : {NormShape{2, 9, 7, 64, 0, 8}, {1, 5, 3, 7, 0, 1}}) {
    const EmulatedNorm c = with(shape, 7);
    const Numbers want = computed_norm(c).out;
    for (const float gain : {4.0f, 1e4f}) {  // the second saturates
      NormArrays<kernels::BFloat16> x(c);
      Numbers workspace = unwritten<float>(kernels::cuda::norm_workspace_size(x.norm.shape));
      for (const NormForm form : {NormForm::kAuto, NormForm::kPasses}) {
        std::vector<kernels::Fp8> out(want.size(), {127});
        kernels::cuda::norm_activation<kernels::BFloat16, kernels::Fp8>(
            x.inputs(), {out.data(), x.mean.data(), x.rstd.data(), gain}, workspace.data(), nullptr,
            form);
        for (std::size_t i = 0; i < out.size(); ++i) {
          const float exact = std::clamp(gain * want[i], -448.0f, 448.0f);
          // Half a unit of the last digit.
          ASSERT_NEAR(value_of(out[i]), exact, std::abs(exact) / 15 + 1.0f / 512) << describe(c);
        }
      }
    }
  }
}

// With the plan of `times` its groups and another number of samples, as in a network, which goes
// back in clusters of so many blocks.
void expect_in_clusters(const NormShape& shape, std::int64_t batch, std::int64_t times,
                        unsigned given, int blocks) {
  EmulatedNorm c = with(shape, given);
  c.planned = NormShape{batch,
                        shape.height,
                        shape.width,
                        times * shape.channels_a,
                        times * shape.channels_b,
                        times * shape.groups,
                        c.shape.border};
  const auto back = kernels::cuda::plan_cluster_backward(*c.planned, sizeof(kernels::BFloat16));
  ASSERT_TRUE(back && back->blocks == blocks) << describe(c);
  expect_as_computed<kernels::BFloat16>(c, NormForm::kAuto);
}

TEST(EmulatedNormClusters, OfTwoBlocks) {
  expect_in_clusters({1, 32, 32, 32, 0, 1}, 64, 8, 63, 2);
  expect_in_clusters({2, 32, 32, 32, 0, 1}, 64, 8, 1, 2);
}
TEST(EmulatedNormClusters, OfFourBlocks) {
  expect_in_clusters({1, 32, 32, 32, 32, 1}, 64, 8, 63, 4);
  expect_in_clusters({1, 40, 40, 64, 0, 2}, 64, 4, 36, 4);
  expect_in_clusters({1, 33, 17, 24, 40, 2}, 1, 4, 26, 4);
}
TEST(EmulatedNormClusters, OfEightBlocks) {
  expect_in_clusters({1, 64, 64, 64, 0, 4}, 64, 2, 36, 8);
  expect_in_clusters({1, 32, 32, 64, 0, 1}, 1, 8, 3, 8);
}
TEST(EmulatedNormClusters, OfSixteenBlocks) {
  expect_in_clusters({1, 64, 64, 32, 0, 1}, 1, 8, 26, 16);
  expect_in_clusters({1, 128, 128, 16, 16, 1}, 1, 8, 63, 16);
}

}  // namespace
}  // namespace slift
