#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/adamw_math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kAdamWThreads = 256;
constexpr int kSumThreads = 1024;
constexpr int kArraysPerLaunch = 56;  // what fits into a launch
// Elements one block takes: enough that finding them costs nothing, few enough to balance.
constexpr std::int64_t kElementsPerBlock = 4096;

std::int64_t blocks_of(std::int64_t size) {
  return (size + kElementsPerBlock - 1) / kElementsPerBlock;
}

SLIFT_HD std::int64_t size_of(const Gradient& gradient) { return gradient.size; }
SLIFT_HD std::int64_t size_of(const AdamWTensor& tensor) { return tensor.grad.size; }

// The arrays of one launch, passed by value: a recorded launch needs no memory of ours. None is
// empty; the blocks of array i are first_block[i] to first_block[i + 1] - 1.
template <typename Array>
struct Launch {
  Array arrays[kArraysPerLaunch];
  unsigned first_block[kArraysPerLaunch + 1];
  int count;
};

// Calls enqueue(launch, blocks) until all `arrays` have had their turn, in their order.
template <typename Array, typename Enqueue>
void for_each_launch(std::span<const Array> arrays, const Enqueue& enqueue) {
  Launch<Array> launch = {};
  const auto flush = [&] {
    if (launch.count > 0) enqueue(launch, launch.first_block[launch.count]);
    launch.count = 0;
  };
  for (const Array& array : arrays) {
    if (size_of(array) == 0) continue;
    const int i = launch.count++;
    launch.arrays[i] = array;
    launch.first_block[i + 1] =
        launch.first_block[i] + static_cast<unsigned>(blocks_of(size_of(array)));
    if (launch.count == kArraysPerLaunch) flush();
  }
  flush();
}

// The elements first ... end - 1 of arrays[array]: the share of this block.
struct Share {
  int array;
  std::int64_t first, end;
};

template <typename Array>
__device__ Share share_of_block(const Launch<Array>& launch) {
  int low = 0, high = launch.count;  // first_block[low] <= blockIdx.x < first_block[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (launch.first_block[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const std::int64_t first = (blockIdx.x - launch.first_block[low]) * kElementsPerBlock;
  return {low, first, min(first + kElementsPerBlock, size_of(launch.arrays[low]))};
}

// The sum over all threads, in an order that depends on their number alone. Once in a kernel.
template <int Threads>
__device__ double sum_over_block(double value) {
  __shared__ double sums[Threads];
  sums[threadIdx.x] = value;
  for (int half = Threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  return sums[0];
}

// N values from element i on; the address is aligned for packs of N.
template <int N>
__device__ Pack<float, N> values_at(const Gradient& gradient, std::int64_t i) {
  if (!gradient.rounded) {
    return *reinterpret_cast<const Pack<float, N>*>(static_cast<const float*>(gradient.values) + i);
  }
  Pack<float, N> result;
  unpack(*reinterpret_cast<const Pack<BFloat16, N>*>(static_cast<const BFloat16*>(gradient.values) +
                                                     i),
         result.values);
  return result;
}

// Whether values can be taken in fours; blocks begin at multiples of four.
__device__ bool fits_fours(const Gradient& gradient) {
  return reinterpret_cast<std::uintptr_t>(gradient.values) % (gradient.rounded ? 8 : 16) == 0;
}

__global__ void __launch_bounds__(kAdamWThreads)
    sum_of_squares(const __grid_constant__ Launch<Gradient> launch, double* partials) {
  const Share share = share_of_block(launch);
  const Gradient gradient = launch.arrays[share.array];
  const bool in_fours = fits_fours(gradient);
  double sum = 0;
  for (std::int64_t i = share.first + 4 * threadIdx.x; i < share.end; i += 4 * kAdamWThreads) {
    Pack<float, 4> four = {};
    if (in_fours && i + 4 <= share.end) {
      four = values_at<4>(gradient, i);
    } else {
      for (int k = 0; k < 4 && i + k < share.end; ++k) {
        four.values[k] = values_at<1>(gradient, i + k).values[0];
      }
    }
    for (const float value : four.values) sum += static_cast<double>(value) * value;
  }
  sum = sum_over_block<kAdamWThreads>(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSumThreads)
    root_of_sum(const double* partials, std::int64_t count, double* norm) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += partials[i];
  sum = sum_over_block<kSumThreads>(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

// N elements from element i on; all pointers are aligned for packs of N.
template <int N>
__device__ void update(const AdamWRates& rates, const AdamWTensor& t, std::int64_t i) {
  using Floats = Pack<float, N>;
  const Floats grad = values_at<N>(t.grad, i);
  Floats param = *reinterpret_cast<const Floats*>(t.param + i);
  Floats first = *reinterpret_cast<const Floats*>(t.first + i);
  Floats second = *reinterpret_cast<const Floats*>(t.second + i);
  Floats ema = *reinterpret_cast<const Floats*>(t.ema + i);
  for (int k = 0; k < N; ++k) {
    adamw_update(rates, grad.values[k], param.values[k], first.values[k], second.values[k],
                 ema.values[k]);
  }
  *reinterpret_cast<Floats*>(t.param + i) = param;
  *reinterpret_cast<Floats*>(t.first + i) = first;
  *reinterpret_cast<Floats*>(t.second + i) = second;
  *reinterpret_cast<Floats*>(t.ema + i) = ema;
  if (t.copy == nullptr) return;
  struct alignas(N * sizeof(BFloat16)) Rounded {
    BFloat16 values[N];
  } copy;
  for (int k = 0; k < N; ++k) from_float(param.values[k], copy.values[k]);
  *reinterpret_cast<Rounded*>(t.copy + i) = copy;
}

// The same of all that belongs to a parameter.
__device__ bool fits_fours(const AdamWTensor& t) {
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const std::uintptr_t floats =
      address(t.param) | address(t.first) | address(t.second) | address(t.ema);
  return fits_fours(t.grad) && floats % 16 == 0 && address(t.copy) % 8 == 0;
}

__global__ void __launch_bounds__(kAdamWThreads)
    adamw_step(const __grid_constant__ Launch<AdamWTensor> launch, const AdamWStep* step,
               const double* norm) {
  const Share share = share_of_block(launch);
  const AdamWTensor tensor = launch.arrays[share.array];
  const AdamWRates rates = adamw_rates(*step, *norm);
  std::int64_t single = share.first;
  if (fits_fours(tensor)) {
    single = share.end - share.end % 4;
    for (std::int64_t i = share.first + 4 * threadIdx.x; i < single; i += 4 * kAdamWThreads) {
      update<4>(rates, tensor, i);
    }
  }
  for (std::int64_t i = single + threadIdx.x; i < share.end; i += kAdamWThreads) {
    update<1>(rates, tensor, i);
  }
}

// What every GPU lets a launch carry.
static_assert(sizeof(Launch<AdamWTensor>) + 2 * sizeof(void*) <= 4096);

}  // namespace

std::int64_t norm_partials(std::span<const Gradient> grads) {
  std::int64_t count = 0;
  for (const Gradient& grad : grads) count += blocks_of(grad.size);
  return count;
}

void global_norm(std::span<const Gradient> grads, double* partials, double* norm, void* stream) {
  std::int64_t done = 0;
  for_each_launch<Gradient>(grads, [&](const Launch<Gradient>& launch, unsigned blocks) {
    launch_kernel(sum_of_squares, blocks, kAdamWThreads, 0, stream, launch, partials + done);
    check_launch("global_norm");
    done += blocks;
  });
  launch_kernel(root_of_sum, 1, kSumThreads, 0, stream, partials, done, norm);
  check_launch("global_norm");
}

void adamw(const AdamWStep* step, const double* norm, std::span<const AdamWTensor> tensors,
           void* stream) {
  for_each_launch<AdamWTensor>(tensors, [&](const Launch<AdamWTensor>& launch, unsigned blocks) {
    launch_kernel(adamw_step, blocks, kAdamWThreads, 0, stream, launch, step, norm);
    check_launch("adamw");
  });
}

}  // namespace slift::kernels::cuda
