#include "kernels/cuda/norm_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/kernel_choice.h"

namespace slift {
namespace {

using kernels::NormShape;
using kernels::cuda::ClusterPlan;
using kernels::cuda::plan_cluster;
using kernels::cuda::plan_cluster_backward;

constexpr int kBytesOfBFloat16 = 2, kBytesOfFloat = 4;

// A shape, and the one whose plan it is run with: as many samples, and as many times its groups. A
// cluster then does what it does in a network, of which a sanitizer could not see all.
struct ClusterCase {
  NormShape shape;
  std::int64_t batch = 0, times_groups = 1;  // of the other; 0: the same batch

  NormShape planned() const {
    NormShape other = shape;
    if (batch > 0) other.batch = batch;
    other.channels_a *= times_groups;
    other.channels_b *= times_groups;
    other.groups *= times_groups;
    return other;
  }
};

// Of a rollout's and a training's levels, large batches and single samples; and others that fit:
// groups of one pack, packs that do not divide a block, sources that meet within a group, fields
// that are all edge, long and narrow ones.
std::vector<ClusterCase> fitting_cases() {
  return {{{1, 128, 128, 32, 0, 2}, 64, 4},
          {{1, 128, 128, 16, 16, 1}, 1, 8},
          {{2, 64, 64, 64, 0, 2}, 64, 4},
          {{1, 64, 64, 32, 0, 1}, 1, 8},
          {{2, 64, 64, 64, 0, 4}, 64, 2},
          {{2, 32, 32, 128, 128, 2}, 64, 4},
          {{2, 32, 32, 64, 0, 4}, 64, 2},
          {{2, 16, 16, 128, 128, 2}, 64, 4},
          {{2, 16, 16, 256, 128, 8}},
          {{3, 33, 17, 24, 40, 8}},
          {{2, 9, 7, 64, 0, 8}},
          {{2, 1, 5, 40, 24, 4}},
          {{2, 1, 1, 72, 0, 3}},
          {{70, 8, 8, 128, 0, 8}},
          {{2, 7, 1, 16, 8, 3}},
          {{2, 2, 9, 24, 8, 2}},
          {{1, 5, 300, 32, 0, 4}},
          {{2, 100, 3, 512, 0, 2}}};
}

// Three or four blocks of 256 threads share the 228 KiB of a multiprocessor, 1 KiB each of which
// the device takes.
int blocks_at_once(const ClusterPlan& plan, unsigned fixed_bytes) {
  return static_cast<int>(228 * 1024 / (plan.shared_bytes + fixed_bytes + 1024));
}
constexpr unsigned kForwardFixed = 2048 + 16, kBackwardFixed = 8192 + 16;

// `held` is how many cells of a thread are in registers, `rest` the bytes of shared memory besides
// those of the cells.
void expect_fits(const NormShape& shape, const std::optional<ClusterPlan>& plan, int fields,
                 int held, int rest_of_channel, int rest_of_block) {
  ASSERT_TRUE(plan.has_value()) << shape.height << " x " << shape.width << " " << shape.channels();
  EXPECT_EQ(shape.groups % plan->groups, 0);
  EXPECT_EQ(plan->channels, plan->groups * shape.channels() / shape.groups);
  EXPECT_GE(std::int64_t{plan->blocks} * plan->cells, shape.cells());
  EXPECT_LE(plan->blocks, 16);
  EXPECT_LE(plan->channels, kernels::cuda::kClusterThreads);
  EXPECT_GE(plan->channels * kBytesOfBFloat16, 32);
  const int packs = plan->channels * kBytesOfBFloat16 / 16;
  const int rows = kernels::cuda::kClusterThreads / packs;
  const int tile = std::max(0, plan->cells - held * rows) * packs * 16 * fields;
  const int sums = plan->groups * plan->blocks * 8;
  EXPECT_GE(plan->shared_bytes,
            static_cast<unsigned>(tile + plan->channels * rest_of_channel +
                                  plan->blocks * rest_of_block + sums + plan->groups * 4));
  EXPECT_LE(plan->shared_bytes, 204u * 1024);
  EXPECT_EQ(plan->shared_bytes % 16, 0u);
}

TEST(NormCluster, PlansCoverTheSampleAndFitTheDevice) {
  for (const ClusterCase& c : fitting_cases()) {
    NormShape shape = c.planned();
    for (const bool border : {false, true}) {
      shape.border = border;
      expect_fits(shape, plan_cluster(shape, kBytesOfBFloat16), 1, border ? 0 : 4, 12, 0);
      expect_fits(shape, plan_cluster_backward(shape, kBytesOfBFloat16), 2, 0, 28, 16);
    }
  }
}

TEST(NormCluster, CasesFitThePlansTheyAreRunWith) {
  for (ClusterCase c : fitting_cases()) {
    for (const bool border : {false, true}) {
      c.shape.border = border;
      for (const int bytes : {kBytesOfBFloat16, kBytesOfFloat}) {
        for (const auto& plan :
             {plan_cluster(c.planned(), bytes), plan_cluster_backward(c.planned(), bytes)}) {
          EXPECT_TRUE(!plan || c.shape.groups % plan->groups == 0) << c.shape.height;
        }
      }
    }
  }
}

void expect_plan(const std::optional<ClusterPlan>& plan, int groups, int blocks) {
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->groups, groups);
  EXPECT_EQ(plan->blocks, blocks);
}

// What was fastest, or within a few percent of it, on an H200.
TEST(NormCluster, PlansOfARollout) {
  // Two groups, to have 64 bytes a cell, or 128 where 8 blocks can hold them; three blocks at once.
  const auto high = plan_cluster({64, 128, 128, 128, 0, 8}, kBytesOfBFloat16);
  expect_plan(high, 2, 16);
  EXPECT_EQ(blocks_at_once(*high, kForwardFixed), 4);  // of which registers allow three
  EXPECT_EQ(high->shared_bytes, 48u * 1024 + 32 * 12 + 2 * 16 * 8 + 16);
  expect_plan(plan_cluster({64, 128, 128, 128, 128, 8}, kBytesOfBFloat16), 1, 16);
  expect_plan(plan_cluster({64, 64, 64, 256, 0, 8}, kBytesOfBFloat16), 2, 8);
  expect_plan(plan_cluster({64, 64, 64, 256, 256, 8}, kBytesOfBFloat16), 1, 8);
  expect_plan(plan_cluster({64, 32, 32, 512, 0, 8}, kBytesOfBFloat16), 1, 2);
  // One sample alone is spread over more blocks, but not so far that they mostly wait.
  expect_plan(plan_cluster({1, 128, 128, 128, 0, 8}, kBytesOfBFloat16), 1, 16);
  expect_plan(plan_cluster({1, 64, 64, 256, 0, 8}, kBytesOfBFloat16), 1, 8);
  expect_plan(plan_cluster({1, 32, 32, 512, 0, 8}, kBytesOfBFloat16), 1, 8);
  // Narrow groups are taken together until a cell has 64 bytes.
  expect_plan(plan_cluster({1, 16, 16, 128, 0, 16}, kBytesOfBFloat16), 4, 1);
}

TEST(NormCluster, PlansOfTraining) {
  expect_plan(plan_cluster({64, 64, 64, 128, 0, 8, true}, kBytesOfBFloat16), 4, 8);
  expect_plan(plan_cluster({64, 32, 32, 256, 0, 8, true}, kBytesOfBFloat16), 1, 2);
  // All at once, as four blocks fit a multiprocessor.
  const auto low = plan_cluster({64, 16, 16, 512, 0, 8, true}, kBytesOfBFloat16);
  expect_plan(low, 1, 1);
  EXPECT_GE(blocks_at_once(*low, kForwardFixed), 4);
  expect_plan(plan_cluster({64, 64, 64, 64, 0, 8, true}, kBytesOfBFloat16), 4, 8);
  expect_plan(plan_cluster({64, 32, 32, 128, 0, 8, true}, kBytesOfBFloat16), 2, 2);
  expect_plan(plan_cluster({64, 16, 16, 256, 0, 8, true}, kBytesOfBFloat16), 1, 1);

  const auto high = plan_cluster_backward({64, 64, 64, 128, 0, 8, true}, kBytesOfBFloat16);
  expect_plan(high, 2, 8);
  EXPECT_EQ(blocks_at_once(*high, kBackwardFixed), 3);
  expect_plan(plan_cluster_backward({64, 32, 32, 256, 0, 8, true}, kBytesOfBFloat16), 1, 2);
  // 512 blocks of one group would come in two rounds.
  expect_plan(plan_cluster_backward({64, 16, 16, 256, 0, 8, true}, kBytesOfBFloat16), 2, 1);
}

TEST(NormCluster, ShapesThatDoNotFitHaveNoPlan) {
  EXPECT_FALSE(plan_cluster({1, 256, 256, 128, 0, 8}, kBytesOfFloat));    // too many bytes
  EXPECT_FALSE(plan_cluster({1, 8, 8, 8, 0, 1}, kBytesOfBFloat16));       // too few in a cell
  EXPECT_FALSE(plan_cluster({1, 8, 8, 24, 0, 8}, kBytesOfBFloat16));      // not whole packs
  EXPECT_FALSE(plan_cluster({65536, 8, 8, 64, 0, 8}, kBytesOfBFloat16));  // more than a grid
  EXPECT_TRUE(plan_cluster({65535, 8, 8, 64, 0, 8}, kBytesOfBFloat16));
  EXPECT_FALSE(plan_cluster({1, 300, 300, 32768, 0, 4096}, kBytesOfBFloat16));  // 32 bits
  EXPECT_TRUE(plan_cluster({1, 300, 300, 16384, 0, 2048}, kBytesOfBFloat16));
  // A thread for each channel of a group.
  EXPECT_FALSE(plan_cluster({1, 2, 2, 528, 0, 2}, kBytesOfBFloat16));
  EXPECT_FALSE(plan_cluster_backward({1, 2, 2, 528, 0, 2}, kBytesOfBFloat16));
  EXPECT_TRUE(plan_cluster({1, 2, 2, 512, 0, 2}, kBytesOfBFloat16));
  EXPECT_TRUE(plan_cluster_backward({1, 2, 2, 512, 0, 2}, kBytesOfBFloat16));
}

#ifdef SLIFT_WITH_CUDA

using kernels::cuda::NormForm;
using Way = std::variant<NormForm, ClusterPlan>;  // a plan: in clusters, in this one

struct Outcome {
  Tensor out, mean, rstd;  // out [batch, out_height, out_width, C]
};

// Normal numbers with that mean and deviation. Drawn, as results are compared, on the CPU: under a
// sanitizer every kernel of LibTorch's would take its time, too.
Tensor drawn(at::IntArrayRef shape, double mean, double deviation, at::ScalarType type) {
  return (mean + deviation * at::randn(shape)).to(at::kCUDA, type);
}

struct Sources {
  explicit Sources(const NormShape& shape, at::ScalarType type) {
    at::manual_seed(3);
    a = drawn({shape.batch, shape.cells(), shape.channels_a}, 0.5, 1, type);
    b = drawn({shape.batch, shape.cells(), shape.channels_b}, -0.5, 1, type);
    bias = drawn({shape.channels()}, 0, 1, at::kFloat);
    scale = drawn({shape.channels()}, 1, 0.3, at::kFloat);
    shift = drawn({shape.channels()}, 0, 0.3, at::kFloat);
    // Part of a wider matrix, as those of a network's blocks.
    film = drawn({shape.batch, 2 * shape.channels() + 32}, 0, 0.3, at::kFloat);
    film = film.narrow(1, 16, 2 * shape.channels());
  }
  template <typename T>
  kernels::NormInputs<T> inputs(const NormShape& shape) const {
    return {shape,
            kernels::Activation::kGelu,
            ops::data_of<T>(a),
            ops::data_of<T>(b),
            ops::data_of<float>(bias),
            ops::data_of<float>(scale),
            ops::data_of<float>(shift),
            ops::data_of<float>(film),
            film.numel() > 0 ? film.stride(0) : 0};
  }
  Tensor a, b, bias, scale, shift, film;
};

// T and Out are the kernels' types, `type` LibTorch's name of Out.
template <typename T, typename Out>
Outcome run(const Way& way, const NormShape& shape, const Sources& s, at::ScalarType type,
            float gain = 1) {
  const auto number = s.scale.options();
  const Outcome y{at::empty({shape.batch, shape.out_height(), shape.out_width(), shape.channels()},
                            number.dtype(type)),
                  at::empty({shape.batch, shape.groups}, number),
                  at::empty({shape.batch, shape.groups}, number)};
  const Tensor workspace = at::empty({kernels::cuda::norm_workspace_size(shape)}, number);
  const kernels::NormOutputs<Out> out{ops::data_of<Out>(y.out), ops::data_of<float>(y.mean),
                                      ops::data_of<float>(y.rstd), gain};
  if (const auto* plan = std::get_if<ClusterPlan>(&way)) {
    kernels::cuda::norm_in_clusters(s.inputs<T>(shape), out, *plan, ops::current_stream());
  } else {
    kernels::cuda::norm_activation(s.inputs<T>(shape), out, ops::data_of<float>(workspace),
                                   ops::current_stream(), std::get<NormForm>(way));
  }
  return y;
}

bool close(const Tensor& x, const Tensor& y, double relative, double absolute) {
  return at::allclose(x.to(at::kCPU, at::kDouble), y.to(at::kCPU, at::kDouble), relative, absolute);
}

bool same_bits(const Tensor& x, const Tensor& y) { return at::equal(x.cpu(), y.cpu()); }

std::string describe(const NormShape& shape) {
  return fmt::format("{} x {} x {}, {} + {} channels, {} groups, border {}", shape.batch,
                     shape.height, shape.width, shape.channels_a, shape.channels_b, shape.groups,
                     shape.border);
}

// How to run a case once more: as it is run where nothing else is asked for, if that is the same.
Way again(const ClusterCase& c, const ClusterPlan& plan) {
  return c.batch == 0 ? Way(NormForm::kAuto) : Way(plan);
}

template <typename T>
void expect_equal_forms(const ClusterCase& c, at::ScalarType type, double relative) {
  const auto plan = plan_cluster(c.planned(), sizeof(T));
  ASSERT_TRUE(plan || sizeof(T) == sizeof(float));
  if (!plan) return;
  const NormShape& shape = c.shape;
  const Sources s(shape, type);
  const Outcome passes = run<T, T>(NormForm::kPasses, shape, s, type);
  const Outcome cluster = run<T, T>(*plan, shape, s, type);
  const std::string what = describe(shape);
  EXPECT_TRUE(close(cluster.out, passes.out, relative, 2e-5)) << what;
  EXPECT_TRUE(close(cluster.mean, passes.mean, 1e-6, 1e-6)) << what;
  EXPECT_TRUE(close(cluster.rstd, passes.rstd, 1e-6, 0)) << what;
  EXPECT_TRUE(same_bits(run<T, T>(again(c, *plan), shape, s, type).out, cluster.out)) << what;
  // Whatever the other samples are.
  Sources changed = s;
  for (Tensor* p : {&changed.a, &changed.b, &changed.film}) {
    *p = p->clone();
    p->narrow(0, 0, shape.batch - 1).mul_(3);
  }
  const Tensor last = run<T, T>(*plan, shape, changed, type).out;
  EXPECT_TRUE(same_bits(last[shape.batch - 1], cluster.out[shape.batch - 1])) << what;
}

// A case, with a border or without, in bfloat16 or float32: a test each, or under a sanitizer they
// would take too long.
class NormClusterCase : public testing::TestWithParam<std::tuple<ClusterCase, bool, bool>> {
 protected:
  static ClusterCase given_case() {
    ClusterCase c = std::get<0>(GetParam());
    c.shape.border = std::get<1>(GetParam());
    return c;
  }
  static bool in_bfloat16() { return std::get<2>(GetParam()); }
};

TEST_P(NormClusterCase, FormsAgreeAndRepeatTheirBits) {
  if (!torch::cuda::is_available()) return;
  if (in_bfloat16()) {
    expect_equal_forms<kernels::BFloat16>(given_case(), at::kBFloat16, 8e-3);  // one rounding
  } else {
    expect_equal_forms<float>(given_case(), at::kFloat, 1e-5);
  }
}

// What arrives at backward; a and b may have no elements.
struct Arriving {
  Tensor out, a, b, again;
};

using Gradients = std::vector<Tensor>;  // of a, b, bias, scale, shift, film

// `y` is what forward gave.
template <typename T>
Gradients run_backward(const Way& way, const NormShape& shape, const Sources& s, const Outcome& y,
                       const Arriving& from) {
  const auto rows = [&](const Tensor& parameter) {  // of one sample each
    return at::empty({parameter.numel() > 0 ? shape.batch : 0, shape.channels()},
                     s.scale.options());
  };
  const Gradients g{at::empty_like(s.a), at::empty_like(s.b),
                    rows(s.bias),        rows(s.scale),
                    rows(s.shift),       at::empty(s.film.sizes(), s.film.options())};
  const Tensor workspace =
      at::empty({kernels::cuda::norm_workspace_size(shape)}, s.scale.options());
  const float *const mean = ops::data_of<float>(y.mean), *const rstd = ops::data_of<float>(y.rstd);
  const kernels::NormArrivals<T> arrivals{ops::data_of<T>(from.out), ops::data_of<T>(from.a),
                                          ops::data_of<T>(from.b), ops::data_of<T>(from.again)};
  const kernels::NormGradients<T> grad{ops::data_of<T>(g[0]),     ops::data_of<T>(g[1]),
                                       ops::data_of<float>(g[2]), ops::data_of<float>(g[3]),
                                       ops::data_of<float>(g[4]), ops::data_of<float>(g[5])};
  if (const auto* plan = std::get_if<ClusterPlan>(&way)) {
    kernels::cuda::norm_backward_in_clusters<T>(s.inputs<T>(shape), mean, rstd, arrivals, grad,
                                                *plan, ops::current_stream());
  } else {
    kernels::cuda::norm_activation_backward<T>(s.inputs<T>(shape), mean, rstd, arrivals, grad,
                                               ops::data_of<float>(workspace),
                                               ops::current_stream(), std::get<NormForm>(way));
  }
  return g;
}

// `given` chooses what there is: bit 0 bias, 1 film, 2 to 4 what arrives at a, at b and at a once
// more. Errors are in units of the largest gradient, of the fields and of the parameters.
template <typename T>
void expect_equal_gradients(const ClusterCase& c, at::ScalarType type, unsigned given,
                            double field_error, double parameter_error) {
  const auto plan = plan_cluster_backward(c.planned(), sizeof(T));
  ASSERT_TRUE(plan || sizeof(T) == sizeof(float));
  if (!plan) return;
  const NormShape& shape = c.shape;
  Sources s(shape, type);
  // With a mean, so that the parts that the statistics bring are as large as the others.
  const auto arrival = [&](at::IntArrayRef sizes, double mean = 0) {
    return drawn(sizes, mean, 1, type);
  };
  Arriving from{arrival({shape.batch, shape.out_cells(), shape.channels()}, 1),
                arrival(s.a.sizes()), arrival(s.b.sizes()), arrival(s.a.sizes())};
  Tensor* const options[] = {&s.bias, &s.film, &from.a, &from.b, &from.again};
  for (unsigned i = 0; i < std::size(options); ++i) {
    if ((given >> i & 1) == 0) *options[i] = at::empty({0}, options[i]->options());
  }
  const Outcome y = run<T, T>(NormForm::kPasses, shape, s, type);
  const Gradients passes = run_backward<T>(NormForm::kPasses, shape, s, y, from);
  const Gradients cluster = run_backward<T>(*plan, shape, s, y, from);
  const Gradients repeated = run_backward<T>(again(c, *plan), shape, s, y, from);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].numel() == 0) continue;
    const std::string what = fmt::format("gradient {}, {}, given {}", i, describe(shape), given);
    const Tensor want = passes[i].to(at::kCPU, at::kDouble);
    const Tensor got = cluster[i].to(at::kCPU, at::kDouble);
    const double scale = want.abs().max().item<double>();
    EXPECT_LE((got - want).abs().max().item<double>(),
              scale * (i < 2 ? field_error : parameter_error))
        << what;
    EXPECT_TRUE(same_bits(repeated[i], cluster[i])) << what;
  }
}

TEST_P(NormClusterCase, BackwardFormsAgreeAndRepeatTheirBits) {
  if (!torch::cuda::is_available()) return;
  const ClusterCase c = given_case();
  constexpr std::int64_t kMany = 1 << 19;  // numbers; sanitizers take long for those
  const bool large = c.shape.batch * c.shape.cells() * c.shape.channels() >= kMany;
  for (const unsigned given :
       large ? std::vector{0u, 31u} : std::vector{0u, 1u, 2u, 7u, 11u, 16u, 31u}) {
    if (in_bfloat16()) {
      // Both round the result, and the cluster dloss/ds on the way.
      expect_equal_gradients<kernels::BFloat16>(c, at::kBFloat16, given, 1.2e-2, 1e-4);
    } else {
      expect_equal_gradients<float>(c, at::kFloat, given, 1e-5, 2e-5);
    }
  }
}

std::string case_name(const testing::TestParamInfo<NormClusterCase::ParamType>& test) {
  const auto& [c, border, bfloat16] = test.param;
  const NormShape& s = c.shape;
  const NormShape other = c.planned();
  return fmt::format("{}x{}x{}x{}and{}in{}as{}in{}{}_{}", s.batch, s.height, s.width, s.channels_a,
                     s.channels_b, s.groups, other.batch, other.groups, border ? "_border" : "",
                     bfloat16 ? "bf16" : "fp32");
}

INSTANTIATE_TEST_SUITE_P(Cases, NormClusterCase,
                         testing::Combine(testing::ValuesIn(fitting_cases()), testing::Bool(),
                                          testing::Bool()),
                         case_name);

// Where clusters cannot be used, they are not.
TEST(NormCluster, WhatDoesNotFitGoesInPasses) {
  if (!torch::cuda::is_available()) return;
  const NormShape odd_shape{1, 3, 3, 7, 0, 1}, fitting{2, 9, 7, 64, 0, 8};
  const Sources odd(odd_shape, at::kFloat);
  Sources odd_film(fitting, at::kFloat);  // rows that do not begin where 16 bytes do
  odd_film.film = at::randn({2, 129}).to(at::kCUDA).narrow(1, 0, 128);
  for (const auto& [shape, s] : {std::pair(odd_shape, odd), std::pair(fitting, odd_film)}) {
    const auto forward = [&](NormForm form) {
      return run<float, float>(form, shape, s, at::kFloat);
    };
    const Outcome y = forward(NormForm::kPasses);
    EXPECT_TRUE(same_bits(forward(NormForm::kAuto).out, y.out)) << describe(shape);
    const auto backward = [&](NormForm form) {
      return run_backward<float>(form, shape, s, y, {y.out, s.a, s.b, s.a});
    };
    const Gradients want = backward(NormForm::kPasses), got = backward(NormForm::kAuto);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(same_bits(got[i], want[i])) << i << ", " << describe(shape);
    }
  }
}

float from_e4m3(unsigned bits) {
  const unsigned exponent = (bits >> 3) & 15, mantissa = bits & 7;
  const float size =
      exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                    : std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
  return (bits & 128) != 0 ? -size : size;
}

TEST(NormCluster, Fp8IsTheRoundedOutput) {
  if (!torch::cuda::is_available()) return;
  for (const NormShape& shape :
       {NormShape{2, 33, 17, 24, 40, 8, true}, NormShape{1, 5, 3, 7, 0, 1, true}}) {
    const Sources s(shape, at::kBFloat16);
    const Tensor want =
        run<kernels::BFloat16, kernels::BFloat16>(NormForm::kPasses, shape, s, at::kBFloat16)
            .out.to(at::kCPU, at::kFloat)
            .flatten();
    for (const NormForm form : {NormForm::kAuto, NormForm::kPasses}) {
      for (const float gain : {16.0f, 1e6f}) {  // the second saturates
        const Tensor got = run<kernels::BFloat16, kernels::Fp8>(form, shape, s, at::kByte, gain)
                               .out.to(at::kCPU)
                               .flatten();
        for (std::int64_t i = 0; i < got.numel(); ++i) {
          const float exact = std::clamp(gain * want.data_ptr<float>()[i], -448.0f, 448.0f);
          // Half a unit of 3 bits of mantissa, and the rounding of bfloat16.
          ASSERT_NEAR(from_e4m3(got.data_ptr<std::uint8_t>()[i]), exact,
                      std::abs(exact) * 0.068f + 1.0f / 512)
              << i;
        }
      }
    }
  }
}

#endif

}  // namespace
}  // namespace slift
