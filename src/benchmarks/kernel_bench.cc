#include "benchmarks/kernel_bench.h"

#include <torch/autograd.h>

#include "benchmarks/measure.h"
#include "core/errors.h"
#include "kernels/ops.h"
#include "nets/unet_blocks.h"
#include "tensor/runtime.h"

namespace slift {
namespace {

double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<double>(t.nbytes());
  return bytes;
}

// The kernels of one level, on random fields [batch, channels, size, size] in channels-last order.
class Level {
 public:
  Level(std::int64_t batch, std::int64_t channels, std::int64_t size, at::ScalarType type,
        const at::Device& device)
      : batch_(batch), channels_(channels), size_(size), type_(type), device_(device) {}

  void add_convolutions(std::vector<KernelBenchRow>& rows) const {
    const Tensor x = field(), residual = field(), out_grad = field();
    const Tensor weight = at::randn({channels_, channels_, 3, 3}, device_)
                              .mul(0.02)
                              .to(type_)
                              .contiguous(at::MemoryFormat::ChannelsLast);
    const Tensor bias = at::randn({channels_}, device_).to(type_);
    const double flops =
        2.0 * static_cast<double>(weight.numel()) * static_cast<double>(batch_ * size_ * size_);
    const double bytes = bytes_of({x, out_grad, weight});  // three tensors of these sizes each time
    const auto add = [&](const char* name, double moved, const std::function<void()>& kernel) {
      rows.push_back({name, shape(channels_), kernel_milliseconds(device_, kernel), moved, flops});
    };
    add("conv 3x3", bytes, [&] {
      const torch::NoGradGuard no_grad;
      ops::convolution(x, {.weight = weight, .border = 1});
    });
    add("conv 3x3 + residual + bias", bytes + bytes_of({residual}), [&] {
      const torch::NoGradGuard no_grad;
      ops::convolution(x, {.weight = weight, .bias = bias, .residual = residual, .border = 1});
    });
    const auto add_gradient = [&](const char* name, const Tensor& input, const Tensor& of) {
      const Tensor out =
          ops::convolution(input, {.weight = of.is_same(input) ? weight : of, .border = 1});
      add(name, bytes,
          [&] { torch::autograd::grad({out}, {of}, {out_grad}, /*retain_graph=*/true); });
    };
    const Tensor x_leaf = leaf(x), weight_leaf = leaf(weight);
    add_gradient("conv 3x3, input gradient", x_leaf, x_leaf);
    add_gradient("conv 3x3, weight gradient", x, weight_leaf);
  }

  // Of one source with FiLM, as second in a block, or of two without, as first on the way up.
  void add_norms(bool two_sources, std::vector<KernelBenchRow>& rows) const {
    const std::int64_t channels = two_sources ? 2 * channels_ : channels_;
    const Tensor a = leaf(field()), b = two_sources ? leaf(field()) : Tensor();
    const Tensor film = two_sources ? Tensor() : leaf(at::randn({batch_, 2 * channels}, device_));
    const Tensor scale = leaf(at::ones({channels}, device_));
    const Tensor shift = leaf(at::zeros({channels}, device_));
    const auto forward = [&] {
      return ops::norm_activation({.f = kernels::Activation::kGelu,
                                   .groups = NormActivation::kGroups,
                                   .a = a,
                                   .b = b,
                                   .scale = scale,
                                   .shift = shift,
                                   .film = film})
          .out;
    };
    const Tensor out = forward();
    const Tensor out_grad = at::randn_like(out);
    std::vector<Tensor> inputs = {a, scale, shift};
    inputs.push_back(two_sources ? b : film);
    const std::string name = two_sources ? "norm + act, two sources" : "norm + film + act";
    const auto add = [&](const std::string& which, double bytes,
                         const std::function<void()>& kernel) {
      rows.push_back({name + which, shape(channels), kernel_milliseconds(device_, kernel), bytes});
    };
    const double pass = bytes_of({out});
    add("", 2 * pass, [&] {
      const torch::NoGradGuard no_grad;
      forward();
    });
    add(", gradient", 3 * pass,
        [&] { torch::autograd::grad({out}, inputs, {out_grad}, /*retain_graph=*/true); });
  }

 private:
  Tensor field() const {
    return at::randn({batch_, channels_, size_, size_}, device_)
        .to(type_)
        .contiguous(at::MemoryFormat::ChannelsLast);
  }
  static Tensor leaf(const Tensor& x) { return x.detach().requires_grad_(); }
  std::string shape(std::int64_t channels) const {
    return fmt::format("{} x {} x {} x {}", batch_, channels, size_, size_);
  }

  std::int64_t batch_, channels_, size_;
  at::ScalarType type_;
  at::Device device_;
};

}  // namespace

KernelBench bench_kernels(const BenchNet& net) {
  const at::Device device = resolve_device(net.device);
  KernelBench result;
  result.precision = resolve_precision(net.precision, device);
  const at::ScalarType type = compute_type(result.precision);
  allow_tf32(result.precision == "tf32");
  result.copy = copy_ceiling(device);
  result.gemm.emplace_back(result.precision, gemm_ceiling(device, type));
  std::int64_t size = net.size;
  for (const std::int64_t width : net.widths) {
    require(size >= 1 && width % NormActivation::kGroups == 0,
            "--widths must be multiples of {}, and --size must allow for {} levels, got {} and {}",
            NormActivation::kGroups, net.widths.size(), width, net.size);
    const Level level(net.batch, width, size, type, device);
    level.add_convolutions(result.rows);
    for (const bool two_sources : {false, true}) level.add_norms(two_sources, result.rows);
    size /= 2;
  }
  if (result.precision != "fp32" && device.is_cuda()) {
    allow_tf32(false);
    result.gemm.emplace_back("fp32", gemm_ceiling(device, at::kFloat));
  }
  return result;
}

}  // namespace slift
