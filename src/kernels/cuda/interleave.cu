#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kInterleaveThreads = 256;

// One block per row of the output, [batch, 2 height, 2 width, channels].
template <typename T, int N>
__global__ void __launch_bounds__(kInterleaveThreads)
    interleave_row(FieldShape shape, const T* y, T* out) {
  begin_after_previous();
  const auto packs = static_cast<unsigned>(shape.channels / N);
  const std::int64_t row = blockIdx.x, sample = row / (2 * shape.height);
  const std::int64_t r = row % (2 * shape.height), i = r % 2;
  const T* const from =
      y + (sample * (shape.height + 1) + r / 2 + i) * (shape.width + 1) * 4 * shape.channels;
  T* const to = out + row * 2 * shape.width * shape.channels;
  const auto length = static_cast<unsigned>(2 * shape.width) * packs;
  for (unsigned e = threadIdx.x; e < length; e += kInterleaveThreads) {
    const unsigned column = e / packs, c = (e - column * packs) * N, j = column % 2;
    float values[N];
    load(from + (column / 2 + j) * 4 * shape.channels + (2 * i + j) * shape.channels + c, values);
    store(values, to + static_cast<std::int64_t>(e) * N);
  }
}

// One block per row of the output, [batch, height + 1, width + 1, 4 channels].
template <typename T, int N>
__global__ void __launch_bounds__(kInterleaveThreads)
    separate_row(FieldShape shape, const T* grad_out, T* grad_y) {
  begin_after_previous();
  const auto packs = static_cast<unsigned>(shape.channels / N);
  const std::int64_t row = blockIdx.x, sample = row / (shape.height + 1);
  const std::int64_t p = row % (shape.height + 1);
  T* const to = grad_y + row * (shape.width + 1) * 4 * shape.channels;
  const auto length = static_cast<unsigned>(shape.width + 1) * 4 * packs;
  for (unsigned e = threadIdx.x; e < length; e += kInterleaveThreads) {
    const unsigned cell = e / packs, c = (e - cell * packs) * N, i = cell / 2 % 2, j = cell % 2;
    const std::int64_t a = p - i, b = static_cast<std::int64_t>(cell / 4) - j;
    float values[N] = {};
    if (a >= 0 && a < shape.height && b >= 0 && b < shape.width) {
      const std::int64_t r = sample * 2 * shape.height + 2 * a + i;
      load(grad_out + (r * 2 * shape.width + 2 * b + j) * shape.channels + c, values);
    }
    store(values, to + static_cast<std::int64_t>(e) * N);
  }
}

}  // namespace

template <typename T>
void interleave(const FieldShape& shape, std::int64_t batch, const T* y, T* out, void* stream) {
  const auto rows = static_cast<unsigned>(batch * 2 * shape.height);
  if (rows * shape.width * shape.channels == 0) return;
  const bool packs = fits_packs(shape.channels, y, out);
  const auto kernel = packs ? interleave_row<T, kPackSize<T>> : interleave_row<T, 1>;
  launch_early(kernel, rows, kInterleaveThreads, 0, stream, shape, y, out);
  check_launch("interleave");
}

template <typename T>
void interleave_backward(const FieldShape& shape, std::int64_t batch, const T* grad_out, T* grad_y,
                         void* stream) {
  const auto rows = static_cast<unsigned>(batch * (shape.height + 1));
  if (rows * shape.channels == 0) return;
  const bool packs = fits_packs(shape.channels, grad_out, grad_y);
  const auto kernel = packs ? separate_row<T, kPackSize<T>> : separate_row<T, 1>;
  launch_early(kernel, rows, kInterleaveThreads, 0, stream, shape, grad_out, grad_y);
  check_launch("interleave_backward");
}

template void interleave(const FieldShape&, std::int64_t, const float*, float*, void*);
template void interleave(const FieldShape&, std::int64_t, const BFloat16*, BFloat16*, void*);
template void interleave_backward(const FieldShape&, std::int64_t, const float*, float*, void*);
template void interleave_backward(const FieldShape&, std::int64_t, const BFloat16*, BFloat16*,
                                  void*);

}  // namespace slift::kernels::cuda
