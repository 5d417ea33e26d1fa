#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <string>
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
  double mean = 0.5;  // of a and b, whose deviation is 1

  std::int64_t channels() const { return channels_a + channels_b; }
};

std::string describe(const NormCase& c) {
  return fmt::format("{} x {} x {}, {} + {} channels, {} groups, film {}, {}", c.batch, c.height,
                     c.width, c.channels_a, c.channels_b, c.groups, c.film,
                     c.f == Activation::kSilu ? "silu" : "gelu");
}

// Inputs in the order of ops::norm_activation(); undefined where a case has none.
struct NormTensors {
  Tensor a, b, scale, shift, film;

  std::vector<Tensor*> all() { return {&a, &b, &scale, &shift, &film}; }
};

Tensor noise(const std::vector<std::int64_t>& shape, std::uint64_t index) {
  Tensor values = at::empty(shape, at::kFloat);
  fill_normal({5, Purpose::kSystemNoise, index, 0},
              {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

// float64 goes LibTorch's way. Both kernels' error is a few roundings of float32; results of
// bfloat16 are rounded to 2^-9 of themselves.
struct Type {
  at::ScalarType name;
  double tolerance;  // of values, relative to 1 + the largest
};

std::vector<Type> types(at::Device device) {
  std::vector<Type> all = {{at::kFloat, 2e-6}, {at::kDouble, 1e-12}};
  if (device.is_cuda()) all.push_back({at::kBFloat16, 4e-3});
  return all;
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

// out = f(film(norm(concat(a, b)))) in float64, element by element from the definition.
std::vector<double> plain_reference(const NormCase& c, const NormTensors& t) {
  const std::int64_t channels = c.channels(), cells = c.height * c.width;
  const Tensor x = (t.b.defined() ? at::cat({t.a, t.b}, 1) : t.a)
                       .to(at::kDouble)
                       .contiguous()
                       .view({c.batch, channels, cells});
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
  return out;
}

Tensor apply(const NormCase& c, const NormTensors& t) {
  return ops::norm_activation(c.f, c.groups, t.a, t.b, t.scale, t.shift, t.film);
}

// Both activations, with and without film, for: one and two sources, groups within a source and
// across the border, cells fewer and more than a block, a single cell, one channel per group. Once:
// sizes at which CUDA threads take turns.
std::vector<NormCase> cases() {
  std::vector<NormCase> all;
  for (const Activation f : {Activation::kGelu, Activation::kSilu}) {
    for (const bool film : {false, true}) {
      all.push_back({3, 5, 7, 8, 0, 8, film, f});
      all.push_back({2, 5, 7, 24, 0, 8, film, f});
      all.push_back({2, 1, 1, 24, 0, 8, film, f});
      all.push_back({1, 1, 1, 8, 0, 8, film, f});
      all.push_back({2, 5, 7, 16, 8, 8, film, f});
      all.push_back({3, 5, 7, 7, 17, 4, film, f});    // 6 channels a group: the second straddles
      all.push_back({1, 9, 13, 20, 12, 2, film, f});  // 16: straddles, more than a vector
    }
  }
  all.push_back({1, 70, 70, 8, 0, 4, true, Activation::kGelu});    // cells of several blocks
  all.push_back({1, 10, 13, 512, 0, 2, true, Activation::kGelu});  // and of threads that close sums
  all.push_back({2, 4, 5, 1032, 1024, 257, true, Activation::kGelu});  // channels: packs
  all.push_back({2, 1, 3, 301, 0, 1, true, Activation::kSilu});        // channels: one by one
  return all;
}

class NormOnDevice : public testing::TestWithParam<at::Device> {};

TEST_P(NormOnDevice, ForwardAgreesWithTheDefinition) {
  for (const NormCase& c : cases()) {
    const NormTensors inputs = rounded(make_inputs(c));
    const Tensor want = at::tensor(plain_reference(c, inputs), at::kDouble)
                            .view({c.batch, c.channels(), c.height, c.width});
    const double scale = 1 + want.abs().max().item<double>();
    for (const Type& type : types(GetParam())) {
      const Tensor out = apply(c, moved(inputs, GetParam(), type.name));
      ASSERT_EQ(out.sizes(), want.sizes()) << describe(c);
      EXPECT_EQ(out.scalar_type(), type.name);
      EXPECT_LT((out.to(at::kCPU, at::kDouble) - want).abs().max().item<double>(),
                type.tolerance * scale)
          << describe(c) << " " << type.name;
    }
  }
}

Tensor output_weights(at::IntArrayRef shape) { return rounded(noise(shape.vec(), 9)); }

// Gradients of sum(weight out) with respect to each input, in the given type.
std::vector<Tensor> gradients(const NormCase& c, const NormTensors& inputs, at::Device device,
                              at::ScalarType type) {
  NormTensors t = moved(inputs, device, type);
  for (Tensor* p : t.all()) {
    if (p->defined()) *p = p->detach().requires_grad_();
  }
  const Tensor out = apply(c, t);
  (out * output_weights(out.sizes()).to(device, type)).sum().backward();
  std::vector<Tensor> result;
  for (const Tensor* p : t.all()) {
    result.push_back(p->defined() ? p->grad().to(at::kCPU, at::kDouble) : Tensor());
  }
  return result;
}

TEST_P(NormOnDevice, GradientsAgreeWithFloat64) {
  const char* names[] = {"a", "b", "scale", "shift", "film"};
  for (const NormCase& c : cases()) {
    const NormTensors t = rounded(make_inputs(c));
    const auto want = gradients(c, t, at::kCPU, at::kDouble);
    // Alone in its group a value has norm 0, whatever it and its scale are, and rstd is 316.
    const bool alone = c.height * c.width * c.channels() == c.groups;
    for (const Type& type : types(GetParam())) {
      const auto got = gradients(c, t, GetParam(), type.name);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!want[i].defined()) continue;
        const double scale = want[i].abs().max().item<double>();
        EXPECT_LT((got[i] - want[i]).abs().max().item<double>(),
                  type.tolerance * (1 + scale) * (alone ? 100 : 1))
            << names[i] << " " << describe(c) << " " << type.name;
        EXPECT_TRUE(alone || scale > 1e-2) << names[i] << " " << describe(c);
      }
    }
  }
}

TEST_P(NormOnDevice, ALargeMeanCostsNoAccuracyBeyondThatOfTheData) {
  const NormCase c{2, 16, 16, 24, 8, 8, true, Activation::kGelu, /*mean=*/1000};
  const NormTensors t = make_inputs(c);
  const Tensor got = apply(c, moved(t, GetParam(), at::kFloat)).to(at::kCPU, at::kDouble);
  // The spacing of floats at 1000 is 6e-5, and so is that of their rounded mean.
  EXPECT_LT((got.contiguous().flatten() - at::tensor(plain_reference(c, t), at::kDouble))
                .abs()
                .max()
                .item<double>(),
            2e-4);
}

TEST_P(NormOnDevice, ConstantFieldsGiveTheShift) {
  const NormCase c{1, 4, 4, 8, 0, 8, false, Activation::kSilu};
  NormTensors t = make_inputs(c);
  t.a.fill_(123.456f);
  const Tensor want = at::silu(t.shift).view({1, 8, 1, 1}).expand({1, 8, 4, 4});
  EXPECT_TRUE(at::allclose(apply(c, moved(t, GetParam(), at::kFloat)).cpu(), want, 1e-6, 1e-6));
}

TEST_P(NormOnDevice, BitsDependNeitherOnTheRunNorOnTheLayoutNorOnTheBatch) {
  for (const NormCase& c : {NormCase{2, 30, 40, 40, 24, 8, true, Activation::kGelu},
                            NormCase{2, 9, 7, 7, 17, 4, true, Activation::kGelu}}) {
    for (const Type& type : types(GetParam())) {
      if (type.name == at::kDouble) continue;
      const NormTensors t = moved(make_inputs(c), GetParam(), type.name);
      const Tensor out = apply(c, t);
      EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
      const std::vector<Tensor> slopes = gradients(c, t, GetParam(), type.name);
      NormTensors rows = t;  // row-major
      rows.a = t.a.contiguous();
      rows.b = t.b.contiguous();
      EXPECT_TRUE(at::equal(apply(c, t), out));
      EXPECT_TRUE(at::equal(apply(c, rows), out));
      const std::vector<Tensor> again = gradients(c, rows, GetParam(), type.name);
      for (std::size_t i = 0; i < slopes.size(); ++i) {
        EXPECT_TRUE(at::equal(again[i], slopes[i])) << describe(c) << " " << i;
      }
      NormTensors last = t;
      for (Tensor* p : {&last.a, &last.b, &last.film}) *p = p->narrow(0, 1, 1);
      EXPECT_TRUE(at::equal(apply(c, last), out.narrow(0, 1, 1)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NormOnDevice, testing::ValuesIn(test_devices()),
                         [](const auto& device) {
                           return device.param.is_cuda() ? "cuda" : "cpu";
                         });

// float64 goes LibTorch's way: this holds that way, which the gradients above are measured by,
// to the definition.
TEST(NormActivation, GradientsAgreeWithDifferences) {
  const NormCase c{2, 2, 3, 5, 7, 3, true, Activation::kGelu};
  NormTensors t = make_inputs(c);
  const std::vector<Tensor> slopes = gradients(c, t, at::kCPU, at::kFloat);
  const std::vector<double> weight = [&] {
    const Tensor w = output_weights({c.batch, c.channels(), c.height, c.width}).to(at::kDouble);
    return std::vector<double>(w.data_ptr<double>(), w.data_ptr<double>() + w.numel());
  }();
  const auto loss = [&] {
    const std::vector<double> out = plain_reference(c, t);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += weight[i] * out[i];
    return sum;
  };
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
  const NormCase c{2, 9, 7, 40, 24, 8, true, Activation::kGelu};
  const NormTensors t = make_inputs(c);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor out = apply(c, t);
  const std::vector<Tensor> slopes = gradients(c, t, at::kCPU, at::kFloat);
  for (const int threads : {2, 7}) {  // with 7 the groups are divided, too
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(apply(c, t), out)) << threads;
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
  EXPECT_THROW(apply(c, with(&NormTensors::film, at::zeros({2, 16}))), c10::Error);
  EXPECT_THROW(apply(c, with(&NormTensors::film, at::zeros({2, 32}, at::kDouble))), c10::Error);
  NormCase odd = c;
  odd.groups = 5;
  EXPECT_THROW(apply(odd, good), c10::Error);
}

}  // namespace
}  // namespace slift
