#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kPadThreads = 256;

// One block per row of the output. A row is packs of N channels, `cell` of them in a cell.
template <typename T, int N>
__global__ void __launch_bounds__(kPadThreads) pad_row(FieldShape shape, const T* x, T* out) {
  const std::int64_t cell = shape.channels / N, length = shape.width * cell;
  const std::int64_t row = blockIdx.x, sample = row / (shape.height + 2);
  const std::int64_t image = (row % (shape.height + 2) + shape.height - 1) % shape.height;
  const auto* from =
      reinterpret_cast<const Pack<T, N>*>(x) + (sample * shape.height + image) * length;
  auto* to = reinterpret_cast<Pack<T, N>*>(out) + row * (length + 2 * cell);
  for (std::int64_t e = threadIdx.x; e < length + 2 * cell; e += kPadThreads) {
    std::int64_t source = e - cell;
    if (source < 0) source += length;
    if (source >= length) source -= length;
    to[e] = from[source];
  }
}

// The same for the way back, whose output is the field.
template <typename T, int N>
__global__ void __launch_bounds__(kPadThreads)
    fold_row(FieldShape shape, const T* grad_out, T* grad_x) {
  const std::int64_t cell = shape.channels, length = shape.width * cell;
  const std::int64_t row = blockIdx.x, sample = row / shape.height, i = row % shape.height;
  const T* const of_sample = grad_out + sample * (shape.height + 2) * (length + 2 * cell);
  for (std::int64_t e = threadIdx.x * N; e < length; e += kPadThreads * N) {
    float sum[N] = {};
    const auto add = [&](const T* from) {
      float values[N];
      load(from, values);
      for (int k = 0; k < N; ++k) sum[k] += values[k];
    };
    // The rows of the padded field that are images of this one.
    for (std::int64_t image = i + 1 - shape.height; image <= shape.height + 1;
         image += shape.height) {
      if (image < 0) continue;
      const T* const from = of_sample + image * (length + 2 * cell);
      add(from + cell + e);
      if (e >= length - cell) add(from + e - (length - cell));
      if (e < cell) add(from + cell + length + e);
    }
    store(sum, grad_x + row * length + e);
  }
}

}  // namespace

template <typename T>
void pad_circular(const FieldShape& shape, std::int64_t rows, const T* x, T* out, void* stream) {
  if (rows * shape.width * shape.channels == 0) return;
  const auto kernel = fits_packs(shape.channels, x, out) ? pad_row<T, kPackSize<T>> : pad_row<T, 1>;
  launch_kernel(kernel, static_cast<unsigned>(rows), kPadThreads, 0, stream, shape, x, out);
  check_launch("pad_circular");
}

template <typename T>
void pad_circular_backward(const FieldShape& shape, std::int64_t rows, const T* grad_out, T* grad_x,
                           void* stream) {
  if (rows * shape.width * shape.channels == 0) return;
  const auto kernel =
      fits_packs(shape.channels, grad_out, grad_x) ? fold_row<T, kPackSize<T>> : fold_row<T, 1>;
  launch_kernel(kernel, static_cast<unsigned>(rows), kPadThreads, 0, stream, shape, grad_out,
                grad_x);
  check_launch("pad_circular_backward");
}

template void pad_circular(const FieldShape&, std::int64_t, const float*, float*, void*);
template void pad_circular(const FieldShape&, std::int64_t, const BFloat16*, BFloat16*, void*);
template void pad_circular_backward(const FieldShape&, std::int64_t, const float*, float*, void*);
template void pad_circular_backward(const FieldShape&, std::int64_t, const BFloat16*, BFloat16*,
                                    void*);

}  // namespace slift::kernels::cuda
