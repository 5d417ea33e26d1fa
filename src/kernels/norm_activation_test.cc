#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "kernels/ops.h"
#include "tensor/test_devices.h"

namespace slift {
namespace {

using kernels::Activation;

struct NormCase {
  std::int64_t batch, height, width, channels_a, channels_b, groups;
  bool film;
  Activation f;
  bool bias = false, border = false;
  bool passed_a = false, passed_b = false;  // also used after the norm
  bool again = false;                       // a once more
  double mean = 0.5;                        // of a and b, whose deviation is 1

  std::int64_t channels() const { return channels_a + channels_b; }
};

std::string describe(const NormCase& c) {
  return fmt::format(
      "{} x {} x {}, {} + {} channels, {} groups, film {}, bias {}, border {}, passed {} {} {}, {}",
      c.batch, c.height, c.width, c.channels_a, c.channels_b, c.groups, c.film, c.bias, c.border,
      c.passed_a, c.passed_b, c.again, c.f == Activation::kSilu ? "silu" : "gelu");
}

// Undefined where a case has none.
struct NormTensors {
  Tensor a, b, bias, scale, shift, film;

  std::vector<Tensor*> all() { return {&a, &b, &bias, &scale, &shift, &film}; }
};

Tensor noise(const std::vector<std::int64_t>& shape, std::uint64_t index) {
  Tensor values = at::empty(shape, at::kFloat);
  fill_normal({5, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

// float64 goes LibTorch's way, which takes long under a sanitizer: on CUDA it has a test of its
// own. Both kernels' error is a few roundings of float32; results of bfloat16 are rounded to 2^-9
// of themselves.
struct Type {
  at::ScalarType name;
  double tolerance;  // of values, relative to 1 + the largest
};

std::vector<Type> types(at::Device device) {
  return {{at::kFloat, 2e-6},
          device.is_cuda() ? Type{at::kBFloat16, 4e-3} : Type{at::kDouble, 1e-12}};
}

// `x` with values that all types have.
Tensor rounded(const Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); }

NormTensors make_inputs(const NormCase& c) {
  const auto last = at::MemoryFormat::ChannelsLast;
  NormTensors t;
  t.a = (noise({c.batch, c.channels_a, c.height, c.width}, 0) + c.mean).contiguous(last);
  if (c.channels_b > 0) {
    t.b = (noise({c.batch, c.channels_b, c.height, c.width}, 1) + c.mean).contiguous(last);
  }
  if (c.bias) t.bias = noise({c.channels()}, 6);
  t.scale = 1 + 0.3 * noise({c.channels()}, 2);
  t.shift = 0.3 * noise({c.channels()}, 3);
  if (c.film) t.film = 0.3 * noise({c.batch, 2 * c.channels()}, 4);
  return t;
}

NormTensors rounded(NormTensors t) {
  for (Tensor* p : t.all()) {
    if (p->defined()) *p = rounded(*p);
  }
  return t;
}

NormTensors moved(NormTensors t, at::Device device, at::ScalarType type) {
  for (Tensor* p : t.all()) {
    if (p->defined()) *p = p->to(device, type);
  }
  return t;
}

// out = f(film(norm(concat(a, b) + bias))) in float64, element by element from the definition.
Tensor plain_reference(const NormCase& c, const NormTensors& t) {
  const std::int64_t channels = c.channels(), cells = c.height * c.width;
  Tensor x = (t.b.defined() ? at::cat({t.a, t.b}, 1) : t.a)
                 .to(at::kDouble)
                 .contiguous()
                 .view({c.batch, channels, cells});
  if (c.bias) x = x + t.bias.to(at::kDouble).view({1, channels, 1});
  const auto values = x.accessor<double, 3>();
  const std::int64_t width = channels / c.groups;
  std::vector<double> out;
  for (std::int64_t n = 0; n < c.batch; ++n) {
    double mean = 0, variance = 0;
    for (std::int64_t k = 0; k < channels; ++k) {
      if (k % width == 0) {  // a group begins
        const Tensor group = x[n].narrow(0, k, width);
        mean = group.mean().item<double>();
        variance = (group - mean).square().mean().item<double>();
      }
      const double scale = t.scale[k].item<double>(), shift = t.shift[k].item<double>();
      const double alpha = c.film ? t.film[n][k].item<double>() : 0;
      const double beta = c.film ? t.film[n][channels + k].item<double>() : 0;
      for (std::int64_t i = 0; i < cells; ++i) {
        double h = (values[n][k][i] - mean) / std::sqrt(variance + 1e-5);
        h = (h * scale + shift) * (1 + alpha) + beta;
        out.push_back(c.f == Activation::kSilu
                          ? h / (1 + std::exp(-h))
                          : 0.5 * h *
                                (1 + std::tanh(std::sqrt(2 / M_PI) * (h + 0.044715 * h * h * h))));
      }
    }
  }
  const Tensor field = at::tensor(out, at::kDouble).view({c.batch, channels, c.height, c.width});
  return c.border ? at::pad(field, {1, 1, 1, 1}, "circular") : field;
}

ops::Normed apply(const NormCase& c, const NormTensors& t) {
  return ops::norm_activation({.f = c.f,
                               .groups = c.groups,
                               .a = t.a,
                               .b = t.b,
                               .bias = t.bias,
                               .scale = t.scale,
                               .shift = t.shift,
                               .film = t.film,
                               .border = c.border});
}

// One and two sources, groups of 1, 3 and 8 channels, within a source and across the border of
// both, sides of one cell, cells fewer and more than a block.
constexpr NormCase kShapes[] = {
    {3, 5, 7, 8, 0, 8, false, Activation::kGelu},   {2, 5, 7, 24, 0, 8, false, Activation::kGelu},
    {2, 1, 1, 24, 0, 8, false, Activation::kGelu},  {1, 1, 1, 8, 0, 8, false, Activation::kGelu},
    {2, 7, 1, 16, 8, 3, false, Activation::kGelu},  {2, 1, 5, 9, 15, 8, false, Activation::kGelu},
    {3, 5, 7, 7, 17, 4, false, Activation::kGelu},   // 6 channels a group: the second straddles
    {1, 9, 13, 24, 8, 2, false, Activation::kGelu},  // 16: straddles, more than a vector
};

// All that may be left out of a shape, in all combinations.
std::vector<NormCase> combinations(NormCase c) {
  std::vector<NormCase> all;
  for (unsigned mask = 0; mask < 32; ++mask) {
    c.film = mask & 1;
    c.bias = mask & 2;
    c.border = mask & 4;
    c.passed_a = mask & 8;
    c.passed_b = (mask & 16) && c.channels_b > 0;
    c.again = (mask & 9) == 9 || (mask & 12) == 4;
    const bool silu =
        ((mask & 16) && c.channels_b == 0) || (mask + static_cast<unsigned>(c.width)) % 3 == 0;
    c.f = silu ? Activation::kSilu : Activation::kGelu;
    all.push_back(c);
  }
  return all;
}

// Sizes at which CUDA threads take turns, once.
std::vector<NormCase> large_cases() {
  return {{1, 70, 70, 8, 0, 4, true, Activation::kGelu, true, true},        // several blocks
          {1, 10, 13, 512, 0, 2, true, Activation::kGelu, true},            // and closing threads
          {2, 4, 5, 1032, 1024, 257, true, Activation::kGelu, true, true},  // packs
          {2, 1, 3, 301, 0, 1, true, Activation::kSilu, true},              // channels one by one
          {133, 1, 2, 40, 0, 8, true, Activation::kGelu, true}};            // many samples
}

class NormOnDevice : public testing::TestWithParam<at::Device> {};

// Of a device and one of kShapes, or the one behind them, the large cases: a test each, or under a
// sanitizer they would take too long.
class NormAgreement : public testing::TestWithParam<std::tuple<at::Device, std::size_t>> {
 protected:
  static at::Device device() { return std::get<0>(GetParam()); }
  static std::vector<NormCase> cases() {
    const std::size_t shape = std::get<1>(GetParam());
    return shape < std::size(kShapes) ? combinations(kShapes[shape]) : large_cases();
  }
};

TEST_P(NormAgreement, ForwardWithTheDefinition) {
  for (const NormCase& c : cases()) {
    const NormTensors inputs = rounded(make_inputs(c));
    const Tensor want = plain_reference(c, inputs);
    const double scale = 1 + want.abs().max().item<double>();
    for (const Type& type : types(device())) {
      const Tensor out = apply(c, moved(inputs, device(), type.name)).out;
      ASSERT_EQ(out.sizes(), want.sizes()) << describe(c);
      EXPECT_EQ(out.scalar_type(), type.name);
      EXPECT_LT((out.to(at::kCPU, at::kDouble) - want).abs().max().item<double>(),
                type.tolerance * scale)
          << describe(c) << " " << type.name;
    }
  }
}

// sum(weight out), and the same of a and b where a case uses them after the norm.
class WeightedSum {
 public:
  WeightedSum(const NormCase& c, const ops::Normed& y) {
    add(y.out, 1);
    if (c.passed_a) add(y.a, 1);
    if (c.passed_b) add(y.b, 1);
    if (c.again) add(y.again, 2);
  }
  double value() const {
    double sum = 0;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      sum += (terms_[i] * weights_[i]).sum().item<double>();
    }
    return sum;
  }
  void backward() const { torch::autograd::backward(terms_, weights_); }

 private:
  void add(const Tensor& x, double factor) {
    const Tensor weight = factor * rounded(noise(x.sizes().vec(), 9));
    terms_.push_back(x);
    weights_.push_back(
        weight.contiguous(x.suggest_memory_format()).to(x.device(), x.scalar_type()));
  }
  torch::autograd::variable_list terms_, weights_;
};

// Gradients of the weighted sum with respect to each input, in the given type.
std::vector<Tensor> gradients(const NormCase& c, const NormTensors& inputs, at::Device device,
                              at::ScalarType type) {
  NormTensors t = moved(inputs, device, type);
  for (Tensor* p : t.all()) {
    if (p->defined()) *p = p->detach().requires_grad_();
  }
  WeightedSum(c, apply(c, t)).backward();
  std::vector<Tensor> result;
  for (const Tensor* p : t.all()) {
    result.push_back(p->defined() ? p->grad().to(at::kCPU, at::kDouble) : Tensor());
  }
  return result;
}

TEST_P(NormAgreement, GradientsWithFloat64) {
  const char* names[] = {"a", "b", "bias", "scale", "shift", "film"};
  for (const NormCase& c : cases()) {
    const NormTensors t = rounded(make_inputs(c));
    const auto want = gradients(c, t, at::kCPU, at::kDouble);
    // Alone in its group a value has norm 0, whatever it and its scale are, and rstd is 316.
    const bool alone = c.height * c.width * c.channels() == c.groups;
    // The norm takes the bias out of a group of one channel.
    const auto vanishes = [&](std::size_t i) {
      return alone || (i == 2 && c.channels() == c.groups);
    };
    for (const Type& type : types(device())) {
      const auto got = gradients(c, t, device(), type.name);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!want[i].defined()) continue;
        const double scale = want[i].abs().max().item<double>();
        EXPECT_LT((got[i] - want[i]).abs().max().item<double>(),
                  type.tolerance * (1 + scale) * (alone ? 100 : 1))
            << names[i] << " " << describe(c) << " " << type.name;
        EXPECT_TRUE(vanishes(i) || scale > 1e-2) << names[i] << " " << describe(c);
      }
    }
  }
}

std::string agreement_name(const testing::TestParamInfo<NormAgreement::ParamType>& test) {
  const auto& [device, shape] = test.param;
  return (shape < std::size(kShapes) ? fmt::format("shape{}_", shape) : "large_") +
         device_name(device);
}

INSTANTIATE_TEST_SUITE_P(Devices, NormAgreement,
                         testing::Combine(testing::ValuesIn(test_devices()),
                                          testing::Range(std::size_t{0}, std::size(kShapes) + 1)),
                         agreement_name);

TEST_P(NormOnDevice, Float64IsComputedThere) {
  const NormCase c{2, 5, 7, 7, 17, 4, true, Activation::kGelu, true, true, true, true, true};
  const NormTensors t = make_inputs(c);
  const Tensor want = plain_reference(c, t);
  const Tensor out = apply(c, moved(t, GetParam(), at::kDouble)).out;
  EXPECT_EQ(out.device(), GetParam());
  EXPECT_LT((out.cpu() - want).abs().max().item<double>(),
            1e-12 * (1 + want.abs().max().item<double>()));
  const auto slopes = gradients(c, t, at::kCPU, at::kDouble);
  const auto there = gradients(c, t, GetParam(), at::kDouble);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    EXPECT_TRUE(at::allclose(there[i], slopes[i], 1e-10, 1e-10)) << i;
  }
}

TEST_P(NormOnDevice, ALargeMeanCostsNoAccuracyBeyondThatOfTheData) {
  NormCase c{2, 16, 16, 24, 8, 8, true, Activation::kGelu, /*bias=*/true};
  c.mean = 1000;
  const NormTensors t = make_inputs(c);
  const Tensor got = apply(c, moved(t, GetParam(), at::kFloat)).out.to(at::kCPU, at::kDouble);
  // The spacing of floats at 1000 is 6e-5, and so is that of their rounded mean.
  EXPECT_LT((got - plain_reference(c, t)).abs().max().item<double>(), 2e-4);
}

TEST_P(NormOnDevice, ConstantFieldsGiveTheShift) {
  const NormCase c{1, 4, 4, 8, 0, 8, false, Activation::kSilu};
  NormTensors t = make_inputs(c);
  t.a.fill_(123.456f);
  const Tensor want = at::silu(t.shift).view({1, 8, 1, 1}).expand({1, 8, 4, 4});
  EXPECT_TRUE(at::allclose(apply(c, moved(t, GetParam(), at::kFloat)).out.cpu(), want, 1e-6, 1e-6));
}

TEST_P(NormOnDevice, BitsDependNeitherOnTheRunNorOnTheLayoutNorOnTheBatch) {
  for (const NormCase& c :
       {NormCase{2, 30, 40, 40, 24, 8, true, Activation::kGelu},
        NormCase{2, 30, 40, 40, 24, 8, true, Activation::kGelu, true, true, true, true},
        NormCase{2, 9, 7, 7, 17, 4, true, Activation::kGelu, true, true, true, true}}) {
    for (const Type& type : types(GetParam())) {
      if (type.name == at::kDouble) continue;
      const NormTensors t = moved(make_inputs(c), GetParam(), type.name);
      const Tensor out = apply(c, t).out;
      EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
      const std::vector<Tensor> slopes = gradients(c, t, GetParam(), type.name);
      NormTensors rows = t;  // row-major
      rows.a = t.a.contiguous();
      rows.b = t.b.contiguous();
      EXPECT_TRUE(at::equal(apply(c, t).out, out));
      EXPECT_TRUE(at::equal(apply(c, rows).out, out));
      const std::vector<Tensor> again = gradients(c, rows, GetParam(), type.name);
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        if (!slopes[i].defined()) continue;
        EXPECT_TRUE(at::equal(again[i], slopes[i])) << describe(c) << " " << i;
      }
      NormTensors last = t;
      for (Tensor* p : {&last.a, &last.b, &last.film}) *p = p->narrow(0, 1, 1);
      EXPECT_TRUE(at::equal(apply(c, last).out, out.narrow(0, 1, 1)));
    }
  }
}

// The output of a case and the gradients of its inputs, with the columns of `matrix` from `first`
// on as film; that of `matrix` comes last.
std::vector<Tensor> with_film_from(const NormCase& c, NormTensors t, const Tensor& matrix,
                                   std::int64_t first) {
  std::vector<Tensor> leaves;
  for (Tensor* p : {&t.a, &t.b, &t.bias, &t.scale, &t.shift}) {
    leaves.push_back(*p = p->detach().requires_grad_());
  }
  leaves.push_back(matrix.detach().requires_grad_());
  t.film = leaves.back().narrow(1, first, 2 * c.channels());
  const ops::Normed y = apply(c, t);
  WeightedSum(c, y).backward();
  std::vector<Tensor> result = {y.out.detach()};
  for (const Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

// In float32, whatever the type of the fields. On CUDA the first offset and width leave it to
// clusters, with the others rows do not begin where 16 bytes do.
TEST_P(NormOnDevice, AFilmMayBePartOfAWiderMatrix) {
  const NormCase c{3, 9, 7, 40, 24, 8, true, Activation::kGelu, true, true, true, true};
  const std::int64_t columns = 2 * c.channels();
  for (const Type& type : types(GetParam())) {
    const NormTensors t = moved(make_inputs(c), GetParam(), type.name);
    const Tensor film = t.film.to(at::kFloat);
    const std::vector<Tensor> want = with_film_from(c, t, film, 0);
    for (const auto& [first, more] : {std::pair<std::int64_t, std::int64_t>{16, 32}, {3, 5}}) {
      const Tensor matrix = at::full({c.batch, columns + more}, NAN, film.options());
      matrix.narrow(1, first, columns).copy_(film);
      std::vector<Tensor> got = with_film_from(c, t, matrix, first);
      got.back() = got.back().narrow(1, first, columns);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double error = (got[i] - want[i]).abs().max().item<double>();
        EXPECT_LE(error, 4 * type.tolerance * (1 + want[i].abs().max().item<double>()))
            << i << " " << first << " " << type.name;
      }
    }
    // Rows that are not dense, and one row for all samples.
    const Tensor transposed = film.t().contiguous().t(), same = film[0].expand_as(film);
    EXPECT_TRUE(at::equal(with_film_from(c, t, transposed, 0)[0], want[0])) << type.name;
    EXPECT_TRUE(
        at::equal(with_film_from(c, t, same, 0)[0], with_film_from(c, t, same.contiguous(), 0)[0]))
        << type.name;
  }
}

// A parameter is a leaf, whose gradient is computed beside the rest of backward (side_stream.h),
// the result of something, or wants no gradient; in all combinations.
TEST_P(NormOnDevice, GradientsOfParametersDoNotDependOnWhichAreWanted) {
  enum class Role { kLeaf, kResult, kConstant };
  const NormCase c{5, 3, 4, 24, 16, 8, true, Activation::kGelu, true};
  for (const Type& type : types(GetParam())) {
    if (type.name == at::kDouble) continue;
    const NormTensors inputs = moved(make_inputs(c), GetParam(), type.name);
    std::vector<Tensor> want;
    for (unsigned roles = 0; roles < 27; ++roles) {
      NormTensors t = inputs;
      for (Tensor* p : {&t.bias, &t.scale, &t.shift}) *p = p->to(at::kFloat);
      t.a = t.a.detach().requires_grad_();
      std::vector<Tensor> leaves;
      unsigned left = roles;
      for (Tensor* p : {&t.bias, &t.scale, &t.shift}) {
        const auto role = static_cast<Role>(left % 3);
        left /= 3;
        leaves.push_back(p->detach().requires_grad_(role != Role::kConstant));
        *p = role == Role::kResult ? leaves.back() * 1 : leaves.back();
      }
      WeightedSum(c, apply(c, t)).backward();
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const Tensor got = leaves[i].grad();
        if (roles == 0) want.push_back(got);  // all are leaves
        ASSERT_EQ(got.defined(), leaves[i].requires_grad()) << roles << " " << i;
        if (got.defined()) {
          EXPECT_TRUE(at::equal(got, want[i])) << roles << " " << i;
        }
      }
    }
  }
}

TEST_P(NormOnDevice, SourcesPassThrough) {
  const NormCase c{2, 3, 4, 8, 16, 8, true, Activation::kGelu};
  NormTensors t = moved(make_inputs(c), GetParam(), at::kFloat);
  for (Tensor* p : {&t.a, &t.b, &t.scale}) p->requires_grad_();
  const ops::Normed y = apply(c, t);
  EXPECT_EQ(y.a.data_ptr(), t.a.data_ptr());  // no copies
  EXPECT_EQ(y.b.data_ptr(), t.b.data_ptr());
  EXPECT_EQ(y.a.grad_fn(), y.out.grad_fn());  // so that autograd leaves the sum to the kernel
  EXPECT_EQ(y.b.grad_fn(), y.out.grad_fn());
  EXPECT_EQ(y.again.data_ptr(), t.a.data_ptr());
  EXPECT_EQ(y.again.grad_fn(), y.out.grad_fn());
  // A norm whose result is not used.
  for (const auto& [once, again] : {std::pair{2, 0}, {0, 3}, {2, 3}}) {
    t.a.mutable_grad() = Tensor();
    const ops::Normed unused = apply(c, t);
    Tensor loss = at::zeros({}, t.a.options());
    if (once > 0) loss = loss + (once * unused.a).sum();
    if (again > 0) loss = loss + (again * unused.again).sum();
    loss.backward();
    EXPECT_TRUE(at::equal(t.a.grad(), at::full_like(t.a, once + again))) << once << ", " << again;
  }
  EXPECT_FALSE(t.b.grad().defined());
  EXPECT_FALSE(t.scale.grad().defined());
  NormCase single = c;
  single.channels_a = 24;
  single.channels_b = 0;
  EXPECT_FALSE(apply(single, moved(make_inputs(single), GetParam(), at::kFloat)).b.defined());
}

INSTANTIATE_TEST_SUITE_P(Devices, NormOnDevice, testing::ValuesIn(test_devices()), DeviceName());

// float64 goes LibTorch's way: this holds that way, which the gradients above are measured by,
// to the definition.
TEST(NormActivation, GradientsAgreeWithDifferences) {
  const NormCase c{2, 2, 3, 5, 7, 3, true, Activation::kGelu, true, true};
  NormTensors t = make_inputs(c);
  const std::vector<Tensor> slopes = gradients(c, t, at::kCPU, at::kFloat);
  const auto loss = [&] { return WeightedSum(c, {plain_reference(c, t), t.a, t.b, t.a}).value(); };
  for (Tensor* p : t.all()) *p = p->to(at::kDouble).contiguous();
  const double h = 1e-5;
  for (std::size_t k = 0; k < slopes.size(); ++k) {
    const Tensor slope = slopes[k].contiguous().flatten();
    const Tensor input = t.all()[k]->flatten();  // a view
    for (std::int64_t i = 0; i < input.numel(); i += 5) {
      const double before = input[i].item<double>();
      input[i] = before + h;
      const double above = loss();
      input[i] = before - h;
      const double below = loss();
      input[i] = before;
      EXPECT_NEAR(slope[i].item<double>(), (above - below) / (2 * h), 2e-5) << k << " " << i;
    }
  }
}

TEST(NormActivation, BitsDoNotDependOnThreads) {
  const NormCase c{2, 9, 7, 40, 24, 8, true, Activation::kGelu, true, true};
  const NormTensors t = make_inputs(c);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor out = apply(c, t).out;
  const std::vector<Tensor> slopes = gradients(c, t, at::kCPU, at::kFloat);
  for (const int threads : {2, 7}) {  // with 7 the groups are divided, too
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(apply(c, t).out, out)) << threads;
    const std::vector<Tensor> again = gradients(c, t, at::kCPU, at::kFloat);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      EXPECT_TRUE(at::equal(again[i], slopes[i])) << threads << " " << i;
    }
  }
  at::set_num_threads(before);
}

TEST(NormActivation, ShapesThatDoNotFitAreABugOfTheCaller) {
  const NormCase c{2, 3, 4, 8, 8, 8, true, Activation::kGelu};
  const NormTensors good = make_inputs(c);
  EXPECT_NO_THROW(apply(c, good));
  const auto with = [&](Tensor NormTensors::*member, const Tensor& value) {
    NormTensors t = good;
    t.*member = value;
    return t;
  };
  EXPECT_THROW(apply(c, with(&NormTensors::b, at::zeros({2, 8, 4, 3}))), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::b, {})), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::scale, at::zeros({8}))), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::bias, at::zeros({8}))), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::film, at::zeros({2, 16}))), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::film, at::zeros({2, 32}, at::kDouble))), c10::Error);
  NormCase odd = c;
  odd.groups = 5;
  EXPECT_THROW(apply(odd, good), c10::Error);
}

}  // namespace
}  // namespace slift
