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
    for (std::int64_t k = 0; k < channels; ++k) {
      const std::int64_t first = k / width * width;
      double mean = 0, variance = 0;
      for (std::int64_t j = first; j < first + width; ++j) {
        for (std::int64_t i = 0; i < cells; ++i) mean += values[n][j][i];
      }
      mean /= static_cast<double>(width * cells);
      for (std::int64_t j = first; j < first + width; ++j) {
        for (std::int64_t i = 0; i < cells; ++i) variance += std::pow(values[n][j][i] - mean, 2);
      }
      variance /= static_cast<double>(width * cells);
      for (std::int64_t i = 0; i < cells; ++i) {
        double h = (values[n][k][i] - mean) / std::sqrt(variance + 1e-5);
        h = h * t.scale[k].item<double>() + t.shift[k].item<double>();
        if (c.film) {
          h = h * (1 + t.film[n][k].item<double>()) + t.film[n][channels + k].item<double>();
        }
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
// across the border, cells fewer and more than a block, a single cell, one channel per group.
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
  return all;
}

class NormOnDevice : public testing::TestWithParam<at::Device> {};

TEST_P(NormOnDevice, ForwardAgreesWithTheDefinition) {
  for (const NormCase& c : cases()) {
    const NormTensors inputs = make_inputs(c);
    const Tensor want = at::tensor(plain_reference(c, inputs), at::kDouble)
                            .view({c.batch, c.channels(), c.height, c.width});
    for (const auto& [type, tolerance] :
         {std::pair{at::kFloat, 3e-6}, std::pair{at::kDouble, 1e-12}}) {
      NormTensors t = inputs;
      for (Tensor* p : t.all()) {
        if (p->defined()) *p = p->to(GetParam(), type);
      }
      const Tensor got = apply(c, t).to(at::kCPU, at::kDouble);
      ASSERT_EQ(got.sizes(), want.sizes()) << describe(c);
      EXPECT_LT((got - want).abs().max().item<double>(), tolerance) << describe(c);
    }
  }
}

// Gradients of sum(weight out) with respect to each input, in the given type.
std::vector<Tensor> gradients(const NormCase& c, NormTensors t, at::Device device,
                              at::ScalarType type) {
  for (Tensor* p : t.all()) {
    if (p->defined()) *p = p->to(device, type).detach().requires_grad_();
  }
  const Tensor out = apply(c, t);
  (out * noise(out.sizes().vec(), 9).to(device, type)).sum().backward();
  std::vector<Tensor> result;
  for (const Tensor* p : t.all()) {
    result.push_back(p->defined() ? p->grad().to(at::kCPU, at::kDouble) : Tensor());
  }
  return result;
}

TEST_P(NormOnDevice, GradientsAgreeWithFloat64) {
  const char* names[] = {"a", "b", "scale", "shift", "film"};
  for (const NormCase& c : cases()) {
    const NormTensors t = make_inputs(c);
    const auto got = gradients(c, t, GetParam(), at::kFloat);
    const auto want = gradients(c, t, GetParam(), at::kDouble);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!want[i].defined()) continue;
      // Alone in its group a value has norm 0, whatever it and its scale are, and rstd is 316.
      const bool alone = c.height * c.width * c.channels() == c.groups;
      // Sums of up to 350 terms of unit scale.
      EXPECT_LT((got[i] - want[i]).abs().max().item<double>(), alone ? 2e-4 : 2e-5)
          << names[i] << " " << describe(c);
      EXPECT_TRUE(alone || want[i].abs().max().item<double>() > 1e-2)
          << names[i] << " " << describe(c);
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
    const Tensor w = noise({c.batch, c.channels(), c.height, c.width}, 9).to(at::kDouble);
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

TEST(NormActivation, ALargeMeanCostsNoAccuracyBeyondThatOfTheData) {
  const NormCase c{2, 16, 16, 24, 8, 8, true, Activation::kGelu, /*mean=*/1000};
  const NormTensors t = make_inputs(c);
  const Tensor got = apply(c, t).to(at::kDouble).contiguous().flatten();
  // The spacing of floats at 1000 is 6e-5, and so is that of their rounded mean.
  EXPECT_LT((got - at::tensor(plain_reference(c, t), at::kDouble)).abs().max().item<double>(),
            2e-4);
}

TEST(NormActivation, ConstantFieldsGiveTheShift) {
  const NormCase c{1, 4, 4, 8, 0, 8, false, Activation::kSilu};
  NormTensors t = make_inputs(c);
  t.a.fill_(123.456f);
  const Tensor want = at::silu(t.shift).view({1, 8, 1, 1}).expand({1, 8, 4, 4});
  EXPECT_TRUE(at::allclose(apply(c, t), want, 1e-6, 1e-6));
}

TEST(NormActivation, BitsDependNeitherOnThreadsNorOnLayout) {
  const NormCase c{2, 9, 7, 40, 24, 8, true, Activation::kGelu};
  const NormTensors t = make_inputs(c);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor out = apply(c, t);
  const std::vector<Tensor> slopes = gradients(c, t, at::kCPU, at::kFloat);
  EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
  for (const int threads : {2, 7}) {  // with 7 the groups are divided, too
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(apply(c, t), out)) << threads;
    const std::vector<Tensor> again = gradients(c, t, at::kCPU, at::kFloat);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      EXPECT_TRUE(at::equal(again[i], slopes[i])) << threads << " " << i;
    }
  }
  at::set_num_threads(before);
  NormTensors other = t;
  other.a = t.a.contiguous();
  other.b = t.b.contiguous();
  EXPECT_TRUE(at::equal(apply(c, other), out));
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
