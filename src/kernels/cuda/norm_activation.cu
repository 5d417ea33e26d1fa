// Two passes over the data each way: one adds up over cells, one maps. Between them a small kernel
// closes the sums of each group and brings all that differs between channels into coefficients per
// (sample, channel), so that the passes know neither groups nor FiLM.
//
// A block takes a slab of cells of one sample, a thread N channels side by side of every `rows`-th
// cell. Sums are closed in an order that depends on the shape alone: the same bits every time,
// whatever else is in the batch.
#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksAtOnce = 3;  // of the passes backward on a multiprocessor: 80 registers
constexpr std::int64_t kSlabElements = 32768;

SLIFT_HD std::int64_t slab_cells(const NormShape& shape) {
  const std::int64_t cells = kSlabElements / shape.channels();
  return cells > 0 ? cells : 1;
}

SLIFT_HD std::int64_t slab_count(const NormShape& shape) {
  return (shape.cells + slab_cells(shape) - 1) / slab_cells(shape);
}

// The parts of the caller's workspace.
struct Workspace {
  Workspace(const NormShape& shape, float* memory) {
    const std::int64_t row = shape.batch * shape.channels();
    float** const per_channel[] = {&centre, &slope, &offset, &tilt, &level};
    for (float** part : per_channel) {
      *part = memory;
      memory += row;
    }
    partials = memory;
  }
  // [batch, C] each: h = (x - centre) slope + offset, the activation's argument, and
  // dloss/dx = slope dloss/dh + tilt (x - centre) + level.
  float *centre, *slope, *offset, *tilt, *level;
  float* partials;  // [batch, slabs, 2, C]: two sums over the cells of a slab
};

// As cpu/activation_math.h. The division errs by 2 ulp; exp(-z) = infinity gives 0.
__device__ float sigmoid(float z) { return __fdividef(1.0f, 1.0f + expf(-z)); }

struct Gelu {
  static __device__ float z(float x) { return 1.59576912f * (x + 0.044715f * x * x * x); }
  static __device__ float slope(float x) { return 1.59576912f * (1.0f + 0.134145f * x * x); }
};

struct Silu {
  static __device__ float z(float x) { return x; }
  static __device__ float slope(float) { return 1.0f; }
};

template <typename F>
__device__ float activate(float x) {
  return x * sigmoid(F::z(x));
}

template <typename F>
__device__ float activation_slope(float x) {
  const float s = sigmoid(F::z(x));
  return s + x * s * (1.0f - s) * F::slope(x);
}

// One channel of a sample as it lies in its source: the value of cell i is first[i * stride].
template <typename T>
struct Column {
  T* first;
  std::int64_t stride;
};

template <typename T>
__device__ Column<T> column(const NormShape& shape, T* a, T* b, std::int64_t sample,
                            std::int64_t channel) {
  if (channel < shape.channels_a) {
    return {a + sample * shape.cells * shape.channels_a + channel, shape.channels_a};
  }
  return {b + sample * shape.cells * shape.channels_b + channel - shape.channels_a,
          shape.channels_b};
}

// Where a thread of a pass stands. The threads form `rows` rows of `lanes`; those beyond, and the
// lanes beyond the channels, have nothing to do.
template <int N>
struct Place {
  __device__ explicit Place(const NormShape& shape) : channels(shape.channels()) {
    const std::int64_t slabs = slab_count(shape), block = blockIdx.x;
    sample = block / slabs;
    slab = block % slabs;
    const auto packs = static_cast<int>(channels / N);
    lanes = packs < kThreads ? packs : kThreads;
    rows = kThreads / lanes;
    lane = static_cast<int>(threadIdx.x) % lanes;
    row = static_cast<int>(threadIdx.x) / lanes;
    end = (slab + 1) * slab_cells(shape);
    if (end > shape.cells) end = shape.cells;
    begin = slab * slab_cells(shape) + row;
    if (row >= rows) begin = end;
  }

  // Calls body(channel) for the first channel of each pack of this lane. All threads of the block
  // make the same calls, so that body may synchronise; `channel` can be past the last.
  template <typename Body>
  __device__ void for_each_pack(const Body& body) const {
    for (std::int64_t first = 0; first < channels; first += lanes * N) body(first + lane * N);
  }

  std::int64_t channels, sample, slab;
  std::int64_t begin, end;  // cells of this thread: begin, begin + rows, ... below end
  int lanes, rows, lane, row;
};

// Adds up the threads' sums over rows and writes them to partials[sample, slab].
template <int N>
__device__ void close_rows(const Place<N>& place, std::int64_t channel, const float (&sums)[2][N],
                           const NormShape& shape, float* partials) {
  __shared__ float shared[2 * N][kThreads];
  for (int i = 0; i < N; ++i) {
    shared[i][threadIdx.x] = sums[0][i];
    shared[N + i][threadIdx.x] = sums[1][i];
  }
  __syncthreads();
  float* const out =
      partials + (place.sample * slab_count(shape) + place.slab) * 2 * place.channels;
  const std::int64_t first = channel - place.lane * N;
  for (int e = static_cast<int>(threadIdx.x); e < 2 * N * place.lanes; e += kThreads) {
    const int lane = e % place.lanes, plane = e / place.lanes;
    const std::int64_t c = first + lane * N + plane % N;
    if (c >= place.channels) continue;
    float total = 0;
    for (int row = 0; row < place.rows; ++row) total += shared[plane][row * place.lanes + lane];
    out[plane / N * place.channels + c] = total;
  }
  __syncthreads();  // before the next pack overwrites this one
}

// Sums of x - k and (x - k)^2, with k the channel's value in cell 0: near the mean in units of the
// deviation, however far both are from 0.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) add_moments(NormInputs<T> in, Workspace work) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    float sums[2][N] = {};
    if (channel < place.channels) {
      const Column<const T> x = column(in.shape, in.a, in.b, place.sample, channel);
      float origin[N];
      load(x.first, origin);
#pragma unroll 4
      for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
        float values[N];
        load(x.first + cell * x.stride, values);
        for (int i = 0; i < N; ++i) {
          const float deviation = values[i] - origin[i];
          sums[0][i] += deviation;
          sums[1][i] += deviation * deviation;
        }
      }
    }
    close_rows(place, channel, sums, in.shape, work.partials);
  });
}

// The sum over the threads of the block, for all of them. `shared` must not be in use.
__device__ double block_sum(double value, double (&shared)[kThreads]) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = shared[0];
  __syncthreads();
  return sum;
}

// The group of a block of the small kernels: one per sample and group.
struct Group {
  __device__ explicit Group(const NormShape& shape)
      : sample(blockIdx.x / shape.groups),
        width(shape.channels() / shape.groups),
        first(blockIdx.x % shape.groups * width),
        row(sample * shape.channels()) {}
  std::int64_t sample, width;
  std::int64_t first;  // channel
  std::int64_t row;    // of this sample in an array [batch, C]
};

template <typename T>
__device__ float film_gain(const NormInputs<T>& in, const Group& group, std::int64_t c) {
  return in.film == nullptr ? 1.0f : 1.0f + in.film[2 * group.row + c];
}

template <typename T>
__device__ void write_coefficients(const NormInputs<T>& in, const Group& group, float mean,
                                   float rstd, const Workspace& work) {
  for (std::int64_t i = threadIdx.x; i < group.width; i += kThreads) {
    const std::int64_t c = group.first + i;
    const float gain = film_gain(in, group, c);
    const float beta = in.film == nullptr ? 0.0f : in.film[2 * group.row + in.shape.channels() + c];
    work.centre[group.row + c] = mean;
    work.slope[group.row + c] = rstd * in.scale[c] * gain;
    work.offset[group.row + c] = in.shift[c] * gain + beta;
  }
}

// From the sums about k to sums of x and x^2 in float64, as in the CPU's kernel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    close_statistics(NormInputs<T> in, Workspace work, float* means, float* rstds) {
  __shared__ double shared[kThreads];
  const Group group(in.shape);
  const std::int64_t channels = in.shape.channels(), slabs = slab_count(in.shape);
  double sum = 0, squares = 0;
  for (std::int64_t e = threadIdx.x; e < slabs * group.width; e += kThreads) {
    const std::int64_t slab = e / group.width, c = group.first + e % group.width;
    const std::int64_t left = in.shape.cells - slab * slab_cells(in.shape);
    const double cells = static_cast<double>(min(left, slab_cells(in.shape)));
    const double origin = to_float(*column(in.shape, in.a, in.b, group.sample, c).first);
    const float* partial = work.partials + (group.sample * slabs + slab) * 2 * channels + c;
    const double first = partial[0], second = partial[channels];
    sum += first + cells * origin;
    squares += second + (2 * first + cells * origin) * origin;
  }
  const double count = static_cast<double>(in.shape.cells * group.width);
  const double mean = block_sum(sum, shared) / count;
  const double variance = max(0.0, block_sum(squares, shared) / count - mean * mean);
  const auto rstd = static_cast<float>(1 / sqrt(variance + kNormEpsilon));
  write_coefficients(in, group, static_cast<float>(mean), rstd, work);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = static_cast<float>(mean);
    rstds[blockIdx.x] = rstd;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    restore_coefficients(NormInputs<T> in, Workspace work, const float* means, const float* rstds) {
  write_coefficients(in, Group(in.shape), means[blockIdx.x], rstds[blockIdx.x], work);
}

template <typename T, int N, typename F>
__global__ void __launch_bounds__(kThreads) map_forward(NormInputs<T> in, Workspace work, T* out) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    if (channel >= place.channels) return;
    const std::int64_t at = place.sample * place.channels + channel;
    float centre[N], slope[N], offset[N];
    load(work.centre + at, centre);
    load(work.slope + at, slope);
    load(work.offset + at, offset);
    const Column<const T> x = column(in.shape, in.a, in.b, place.sample, channel);
    T* const y = out + place.sample * in.shape.cells * place.channels + channel;
#pragma unroll 4
    for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
      float values[N];
      load(x.first + cell * x.stride, values);
      for (int i = 0; i < N; ++i) {
        values[i] = activate<F>((values[i] - centre[i]) * slope[i] + offset[i]);
      }
      store(values, y + cell * place.channels);
    }
  });
}

// Sums of g = dloss/dh and g (x - centre).
template <typename T, int N, typename F>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    add_gradients(NormInputs<T> in, Workspace work, const T* grad_out) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    float sums[2][N] = {};
    if (channel < place.channels) {
      const std::int64_t at = place.sample * place.channels + channel;
      float centre[N], slope[N], offset[N];
      load(work.centre + at, centre);
      load(work.slope + at, slope);
      load(work.offset + at, offset);
      const Column<const T> x = column(in.shape, in.a, in.b, place.sample, channel);
      const T* const grad_y = grad_out + place.sample * in.shape.cells * place.channels + channel;
#pragma unroll 2
      for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
        float values[N], g[N];
        load(x.first + cell * x.stride, values);
        load(grad_y + cell * place.channels, g);
        for (int i = 0; i < N; ++i) {
          const float deviation = values[i] - centre[i];
          g[i] *= activation_slope<F>(deviation * slope[i] + offset[i]);
          sums[0][i] += g[i];
          sums[1][i] += g[i] * deviation;
        }
      }
    }
    close_rows(place, channel, sums, in.shape, work.partials);
  });
}

// The gradients of scale, shift and film, and the map to those of a and b: see close_sums() of the
// CPU's kernel. Threads form rows of channels, each adding up every `rows`-th slab.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    close_gradients(NormInputs<T> in, Workspace work, const float* rstds, NormGradients<T> grad) {
  __shared__ double plains[kThreads], centreds[kThreads];
  const Group group(in.shape);
  const std::int64_t channels = in.shape.channels(), slabs = slab_count(in.shape);
  const auto lanes = static_cast<int>(min(group.width, static_cast<std::int64_t>(kThreads)));
  const int rows = kThreads / lanes, thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes, row = thread / lanes;
  const double rstd = rstds[blockIdx.x];
  double level = 0, tilt = 0;
  for (std::int64_t first = 0; first < group.width; first += lanes) {
    const bool inside = first + lane < group.width;
    const std::int64_t c = group.first + first + lane;
    double plain = 0, centred = 0;
    for (std::int64_t slab = row; inside && row < rows && slab < slabs; slab += rows) {
      const float* partial = work.partials + (group.sample * slabs + slab) * 2 * channels + c;
      plain += partial[0];
      centred += partial[channels];
    }
    plains[thread] = plain;
    centreds[thread] = centred;
    __syncthreads();
    if (inside && row == 0) {
      for (int other = 1; other < rows; ++other) {
        plain += plains[other * lanes + lane];
        centred += centreds[other * lanes + lane];
      }
      const double normed = centred * rstd, scale = in.scale[c];
      const double gain = film_gain(in, group, c);
      grad.scale[group.row + c] = static_cast<float>(gain * normed);
      grad.shift[group.row + c] = static_cast<float>(gain * plain);
      if (in.film != nullptr) {
        float* const film = grad.film + 2 * group.row;
        film[c] = static_cast<float>(scale * normed + in.shift[c] * plain);
        film[channels + c] = static_cast<float>(plain);
      }
      level += gain * scale * plain;
      tilt += gain * scale * normed;
    }
    __syncthreads();
  }
  const double count = static_cast<double>(in.shape.cells * group.width);
  const auto minus_level = static_cast<float>(-rstd * block_sum(level, plains) / count);
  const auto minus_tilt = static_cast<float>(-rstd * rstd * block_sum(tilt, plains) / count);
  for (std::int64_t i = threadIdx.x; i < group.width; i += kThreads) {
    work.level[group.row + group.first + i] = minus_level;
    work.tilt[group.row + group.first + i] = minus_tilt;
  }
}

template <typename T, int N, typename F>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    map_backward(NormInputs<T> in, Workspace work, const T* grad_out, NormGradients<T> grad) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    if (channel >= place.channels) return;
    const std::int64_t at = place.sample * place.channels + channel;
    float centre[N], slope[N], offset[N], tilt[N], level[N];
    load(work.centre + at, centre);
    load(work.slope + at, slope);
    load(work.offset + at, offset);
    load(work.tilt + at, tilt);
    load(work.level + at, level);
    const Column<const T> x = column(in.shape, in.a, in.b, place.sample, channel);
    const Column<T> grad_x = column(in.shape, grad.a, grad.b, place.sample, channel);
    const T* const grad_y = grad_out + place.sample * in.shape.cells * place.channels + channel;
#pragma unroll 2
    for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
      float values[N], g[N];
      load(x.first + cell * x.stride, values);
      load(grad_y + cell * place.channels, g);
      for (int i = 0; i < N; ++i) {
        const float deviation = values[i] - centre[i];
        g[i] *= activation_slope<F>(deviation * slope[i] + offset[i]);
        g[i] = slope[i] * g[i] + tilt[i] * deviation + level[i];
      }
      store(g, grad_x.first + cell * grad_x.stride);
    }
  });
}

bool is_empty(const NormShape& shape) { return shape.batch * shape.cells * shape.channels() == 0; }

struct Grid {
  explicit Grid(const NormShape& shape)
      : slabs(static_cast<unsigned>(shape.batch * slab_count(shape))),
        groups(static_cast<unsigned>(shape.batch * shape.groups)) {}
  unsigned slabs, groups;
};

template <typename T, int N>
void forward(const NormInputs<T>& in, const NormOutputs<T>& out, const Workspace& work,
             cudaStream_t stream) {
  const Grid grid(in.shape);
  add_moments<T, N><<<grid.slabs, kThreads, 0, stream>>>(in, work);
  close_statistics<T><<<grid.groups, kThreads, 0, stream>>>(in, work, out.mean, out.rstd);
  if (in.f == Activation::kSilu) {
    map_forward<T, N, Silu><<<grid.slabs, kThreads, 0, stream>>>(in, work, out.out);
  } else {
    map_forward<T, N, Gelu><<<grid.slabs, kThreads, 0, stream>>>(in, work, out.out);
  }
  check_launch("norm_activation");
}

template <typename T, int N, typename F>
void backward(const NormInputs<T>& in, const float* mean, const float* rstd, const T* grad_out,
              const NormGradients<T>& grad, const Workspace& work, cudaStream_t stream) {
  const Grid grid(in.shape);
  restore_coefficients<T><<<grid.groups, kThreads, 0, stream>>>(in, work, mean, rstd);
  add_gradients<T, N, F><<<grid.slabs, kThreads, 0, stream>>>(in, work, grad_out);
  close_gradients<T><<<grid.groups, kThreads, 0, stream>>>(in, work, rstd, grad);
  map_backward<T, N, F><<<grid.slabs, kThreads, 0, stream>>>(in, work, grad_out, grad);
  check_launch("norm_activation_backward");
}

}  // namespace

std::int64_t norm_workspace_size(const NormShape& shape) {
  return shape.batch * shape.channels() * (5 + 2 * slab_count(shape));
}

template <typename T>
void norm_activation(const NormInputs<T>& in, const NormOutputs<T>& out, float* workspace,
                     void* stream) {
  if (is_empty(in.shape)) return;
  const Workspace work(in.shape, workspace);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (fits_packs(in.shape.channels_a, in.a, out.out) && fits_packs(in.shape.channels_b, in.b)) {
    forward<T, kPackSize<T>>(in, out, work, queue);
  } else {
    forward<T, 1>(in, out, work, queue);
  }
}

template <typename T>
void norm_activation_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                              const T* grad_out, const NormGradients<T>& grad, float* workspace,
                              void* stream) {
  if (is_empty(in.shape)) return;
  const Workspace work(in.shape, workspace);
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto run = [&](auto passes) { passes(in, mean, rstd, grad_out, grad, work, queue); };
  const bool silu = in.f == Activation::kSilu;
  if (fits_packs(in.shape.channels_a, in.a, grad_out, grad.a) &&
      fits_packs(in.shape.channels_b, in.b, grad.b)) {
    run(silu ? backward<T, kPackSize<T>, Silu> : backward<T, kPackSize<T>, Gelu>);
  } else {
    run(silu ? backward<T, 1, Silu> : backward<T, 1, Gelu>);
  }
}

template void norm_activation(const NormInputs<float>&, const NormOutputs<float>&, float*, void*);
template void norm_activation(const NormInputs<BFloat16>&, const NormOutputs<BFloat16>&, float*,
                              void*);
template void norm_activation_backward(const NormInputs<float>&, const float*, const float*,
                                       const float*, const NormGradients<float>&, float*, void*);
template void norm_activation_backward(const NormInputs<BFloat16>&, const float*, const float*,
                                       const BFloat16*, const NormGradients<BFloat16>&, float*,
                                       void*);

}  // namespace slift::kernels::cuda
