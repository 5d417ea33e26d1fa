#include <algorithm>

#include "kernels/kernels.h"

namespace slift::kernels::cpu {

void pad_circular(const FieldShape& shape, std::int64_t row, const float* x, float* out) {
  const std::int64_t cells = shape.width, channels = shape.channels;
  const std::int64_t sample = row / (shape.height + 2), i = row % (shape.height + 2);
  const std::int64_t image = (i + shape.height - 1) % shape.height;
  const float* from = x + (sample * shape.height + image) * cells * channels;
  float* to = out + row * (cells + 2) * channels;
  std::copy_n(from + (cells - 1) * channels, channels, to);
  std::copy_n(from, cells * channels, to + channels);
  std::copy_n(from, channels, to + (cells + 1) * channels);
}

namespace {

void add(std::int64_t n, const float* __restrict x, float* __restrict sum) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

}  // namespace

void pad_circular_backward(const FieldShape& shape, std::int64_t row, const float* grad_out,
                           float* grad_x) {
  const std::int64_t cells = shape.width, channels = shape.channels;
  const std::int64_t sample = row / shape.height, i = row % shape.height;
  const float* of_sample = grad_out + sample * (shape.height + 2) * (cells + 2) * channels;
  float* to = grad_x + row * cells * channels;
  std::fill_n(to, cells * channels, 0.0f);
  // The rows of the padded field that are images of this one.
  for (const std::int64_t image : {i + 1, i + 1 - shape.height, i + 1 + shape.height}) {
    if (image < 0 || image > shape.height + 1) continue;
    const float* from = of_sample + image * (cells + 2) * channels;
    add(cells * channels, from + channels, to);
    add(channels, from, to + (cells - 1) * channels);
    add(channels, from + (cells + 1) * channels, to);
  }
}

}  // namespace slift::kernels::cpu
