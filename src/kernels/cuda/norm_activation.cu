// The form that fits all shapes. Two passes over the data each way: one adds up over cells, one
// maps. Between them a small kernel closes the sums of each group and brings all that differs
// between channels into coefficients per (sample, channel), so that the passes know neither groups
// nor bias nor FiLM.
//
// A block takes a slab of cells of one sample, a thread N channels side by side of every `rows`-th
// cell. Sums are closed in an order that depends on the shape alone: the same bits every time,
// whatever else is in the batch. With border, cells at the edge of the field lie in several places
// of the output; a loop of their own takes them, so that the main loops have no branches.
#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_cluster.h"
#include "kernels/cuda/norm_parts.h"

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
  return (shape.cells() + slab_cells(shape) - 1) / slab_cells(shape);
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
  // dloss/dx = slope dloss/dh + tilt (x - centre) + level. Here and below x has no bias yet.
  float *centre, *slope, *offset, *tilt, *level;
  float* partials;  // [batch, slabs, K, C]: K sums over the cells of a slab
};

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
    end = min((slab + 1) * slab_cells(shape), shape.cells());
    begin = slab * slab_cells(shape) + row;
    if (row >= rows) begin = end;
  }

  // Calls body(channel) for the first channel of each pack of this lane. All threads of the block
  // make the same calls, so that body may synchronise; `channel` can be past the last.
  template <typename Body>
  __device__ void for_each_pack(const Body& body) const {
    for (std::int64_t first = 0; first < channels; first += lanes * N) body(first + lane * N);
  }

  // Calls body(cell) for this thread's share of the cells at the edge.
  template <typename Body>
  __device__ void for_each_edge(const NormShape& shape, const Body& body) const {
    if (row >= rows) return;
    cuda::for_each_edge(Extent(shape), static_cast<unsigned>(slab),
                        static_cast<unsigned>(slab_count(shape)), static_cast<unsigned>(row),
                        static_cast<unsigned>(rows), body);
  }

  std::int64_t channels, sample, slab;
  std::int64_t begin, end;  // cells of this thread: begin, begin + rows, ... below end
  int lanes, rows, lane, row;
};

// Adds up the threads' K sums over rows and writes them to partials[sample, slab].
template <int K, int N>
__device__ void close_rows(const Place<N>& place, std::int64_t channel, const float (&sums)[K][N],
                           const NormShape& shape, float* partials) {
  __shared__ float shared[K * N][kThreads];
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < N; ++i) shared[k * N + i][threadIdx.x] = sums[k][i];
  }
  __syncthreads();
  float* const out =
      partials + (place.sample * slab_count(shape) + place.slab) * K * place.channels;
  const std::int64_t first = channel - place.lane * N;
  for (int e = static_cast<int>(threadIdx.x); e < K * N * place.lanes; e += kThreads) {
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
__device__ void write_coefficients(const NormInputs<T>& in, const Group& group, float mean,
                                   float rstd, const Workspace& work) {
  for (std::int64_t i = threadIdx.x; i < group.width; i += kThreads) {
    const std::int64_t c = group.first + i;
    const Affine map = affine(in, group.sample, c);
    work.centre[group.row + c] = mean - bias_of(in, c);
    work.slope[group.row + c] = rstd * map.weight;
    work.offset[group.row + c] = map.offset;
  }
}

// From the sums about k to sums of x + bias and its square in float64, as in the CPU's kernel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    close_statistics(NormInputs<T> in, Workspace work, float* means, float* rstds) {
  __shared__ double shared[kThreads];
  const Group group(in.shape);
  const std::int64_t channels = in.shape.channels(), slabs = slab_count(in.shape);
  double sum = 0, squares = 0;
  for (std::int64_t e = threadIdx.x; e < slabs * group.width; e += kThreads) {
    const std::int64_t slab = e / group.width, c = group.first + e % group.width;
    const std::int64_t left = in.shape.cells() - slab * slab_cells(in.shape);
    const double cells = static_cast<double>(min(left, slab_cells(in.shape)));
    const double origin =
        static_cast<double>(to_float(*column(in.shape, in.a, in.b, group.sample, c).first)) +
        bias_of(in, c);
    const float* partial = work.partials + (group.sample * slabs + slab) * 2 * channels + c;
    const double first = partial[0], second = partial[channels];
    sum += first + cells * origin;
    squares += second + (2 * first + cells * origin) * origin;
  }
  const double count = static_cast<double>(in.shape.cells() * group.width);
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

// The coefficients of N channels of a sample.
template <int N>
struct ForwardMap {
  __device__ ForwardMap(const Workspace& work, std::int64_t at) {
    load(work.centre + at, centre);
    load(work.slope + at, slope);
    load(work.offset + at, offset);
  }
  float centre[N], slope[N], offset[N];
};

template <typename T, typename Out, int N, typename F, bool kBorder>
__global__ void __launch_bounds__(kThreads)
    map_forward(NormInputs<T> in, Workspace work, NormOutputs<Out> out) {
  const NormShape& shape = in.shape;
  const Extent extent(shape);
  const Place<N> place(shape);
  place.for_each_pack([&](std::int64_t channel) {
    if (channel >= place.channels) return;
    const ForwardMap<N> map(work, place.sample * place.channels + channel);
    const Column<const T> x = column(shape, in.a, in.b, place.sample, channel);
    Out* const y = out.out + place.sample * shape.out_cells() * place.channels + channel;
    const auto compute = [&](std::int64_t cell, float(&values)[N]) {
      load(x.first + cell * x.stride, values);
      for (int i = 0; i < N; ++i) {
        const float h = (values[i] - map.centre[i]) * map.slope[i] + map.offset[i];
        values[i] = held(out, activate_half<T, F>(0.5f * h));
      }
    };
#pragma unroll 4
    for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
      const Spot<kBorder> spot(extent, cell);
      float values[N];
      compute(cell, values);
      if (spot.is_only) store(values, y + spot.place * place.channels);
    }
    if constexpr (kBorder) {
      place.for_each_edge(shape, [&](unsigned cell) {
        float values[N];
        compute(cell, values);
        for_each_image(extent.height, extent.width, cell,
                       [&](unsigned image) { store(values, y + image * place.channels); });
      });
    }
  });
}

// One thread's view of the way back through the activation for N channels.
template <typename T, int N, typename F>
struct BackwardMap {
  __device__ BackwardMap(const NormInputs<T>& in, const Workspace& work, const T* grad_out,
                         std::int64_t sample, std::int64_t channel)
      : extent(in.shape),
        channels(in.shape.channels()),
        map(work, sample * in.shape.channels() + channel),
        x(column(in.shape, in.a, in.b, sample, channel)),
        grad_y(grad_out + sample * in.shape.out_cells() * in.shape.channels() + channel) {}

  // dloss/dout of a cell that is shown in one place.
  __device__ void load_gradient(std::int64_t place, float (&g)[N]) const {
    load(grad_y + place * channels, g);
  }
  __device__ void load_edge_gradient(unsigned cell, float (&g)[N]) const {
    cuda::load_edge_gradient(extent, grad_y, channels, cell, g);
  }
  // From dloss/dout to dloss/dh in g, and x - centre.
  __device__ void through_activation(std::int64_t cell, float (&g)[N],
                                     float (&deviation)[N]) const {
    load(x.first + cell * x.stride, deviation);
    for (int i = 0; i < N; ++i) {
      deviation[i] -= map.centre[i];
      const float h = deviation[i] * map.slope[i] + map.offset[i];
      g[i] *= 0.5f * half_slope<T, F>(0.5f * h);
    }
  }

  Extent extent;
  std::int64_t channels;
  ForwardMap<N> map;
  Column<const T> x;
  const T* grad_y;
};

// Sums of g = dloss/dh, g (x - centre) and x - centre.
constexpr int kGradientSums = 3;

template <typename T, int N, typename F, bool kBorder>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    add_gradients(NormInputs<T> in, Workspace work, const T* grad_out) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    float sums[kGradientSums][N] = {};
    if (channel < place.channels) {
      const BackwardMap<T, N, F> back(in, work, grad_out, place.sample, channel);
      const auto add = [&](std::int64_t cell, float(&g)[N], bool counts) {
        float deviation[N];
        back.through_activation(cell, g, deviation);
        for (int i = 0; i < N; ++i) {
          sums[0][i] += counts ? g[i] : 0.0f;
          sums[1][i] += counts ? g[i] * deviation[i] : 0.0f;
          sums[2][i] += counts ? deviation[i] : 0.0f;
        }
      };
#pragma unroll 2
      for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
        const Spot<kBorder> spot(back.extent, cell);
        float g[N];
        back.load_gradient(spot.place, g);
        add(cell, g, spot.is_only);
      }
      if constexpr (kBorder) {
        place.for_each_edge(in.shape, [&](unsigned cell) {
          float g[N];
          back.load_edge_gradient(cell, g);
          add(cell, g, true);
        });
      }
    }
    close_rows(place, channel, sums, in.shape, work.partials);
  });
}

// The gradients of bias, scale, shift and film, and the map to those of a and b: see close_sums()
// of the CPU's kernel. Threads form rows of channels, each adding up every `rows`-th slab.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    close_gradients(NormInputs<T> in, Workspace work, const float* rstds, NormGradients<T> grad) {
  __shared__ double plains[kThreads], centreds[kThreads], drifts[kThreads];
  const Group group(in.shape);
  const std::int64_t channels = in.shape.channels(), slabs = slab_count(in.shape);
  const auto lanes = static_cast<int>(min(group.width, static_cast<std::int64_t>(kThreads)));
  const int rows = kThreads / lanes, thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes, row = thread / lanes;
  float* const sums = work.partials + group.sample * slabs * kGradientSums * channels;
  const double rstd = rstds[blockIdx.x];
  double level = 0, tilt = 0;
  for (std::int64_t first = 0; first < group.width; first += lanes) {
    const bool inside = first + lane < group.width;
    const std::int64_t c = group.first + first + lane;
    double plain = 0, centred = 0, drift = 0;
    for (std::int64_t slab = row; inside && row < rows && slab < slabs; slab += rows) {
      const float* partial = sums + slab * kGradientSums * channels + c;
      plain += partial[0];
      centred += partial[channels];
      drift += partial[2 * channels];
    }
    plains[thread] = plain;
    centreds[thread] = centred;
    drifts[thread] = drift;
    __syncthreads();
    if (inside && row == 0) {
      for (int other = 1; other < rows; ++other) {
        plain += plains[other * lanes + lane];
        centred += centreds[other * lanes + lane];
        drift += drifts[other * lanes + lane];
      }
      const double normed = centred * rstd, scale = in.scale[c];
      const double gain = film_gain(in, group.sample, c);
      grad.scale[group.row + c] = static_cast<float>(gain * normed);
      grad.shift[group.row + c] = static_cast<float>(gain * plain);
      if (in.film != nullptr) {
        float* const film = grad.film + 2 * group.row;
        film[c] = static_cast<float>(scale * normed + in.shift[c] * plain);
        film[channels + c] = static_cast<float>(plain);
      }
      level += gain * scale * plain;
      tilt += gain * scale * normed;
      sums[c] = static_cast<float>(plain);  // over slab 0, which this thread alone has read
      sums[2 * channels + c] = static_cast<float>(drift);
    }
    __syncthreads();
  }
  const double cells = static_cast<double>(in.shape.cells());
  const double count = cells * static_cast<double>(group.width);
  level = -rstd * block_sum(level, plains) / count;
  tilt = -rstd * rstd * block_sum(tilt, plains) / count;
  for (std::int64_t i = threadIdx.x; i < group.width; i += kThreads) {
    const std::int64_t c = group.first + i;
    work.level[group.row + c] = static_cast<float>(level);
    work.tilt[group.row + c] = static_cast<float>(tilt);
    if (in.bias != nullptr) {
      grad.bias[group.row + c] = static_cast<float>(work.slope[group.row + c] * double{sums[c]} +
                                                    tilt * sums[2 * channels + c] + level * cells);
    }
  }
}

template <typename T, int N, typename F, bool kBorder>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    map_backward(NormInputs<T> in, Workspace work, NormArrivals<T> arrivals,
                 NormGradients<T> grad) {
  const Place<N> place(in.shape);
  place.for_each_pack([&](std::int64_t channel) {
    if (channel >= place.channels) return;
    const BackwardMap<T, N, F> back(in, work, arrivals.out, place.sample, channel);
    float tilt[N], level[N];
    load(work.tilt + place.sample * place.channels + channel, tilt);
    load(work.level + place.sample * place.channels + channel, level);
    const Column<T> grad_x = column(in.shape, grad.a, grad.b, place.sample, channel);
    const Column<const T> more = column(in.shape, arrivals.a, arrivals.b, place.sample, channel);
    const bool has_more = (channel < in.shape.channels_a ? arrivals.a : arrivals.b) != nullptr;
    const Column<const T> again =
        column(in.shape, arrivals.again, arrivals.b, place.sample, channel);
    const bool has_again = arrivals.again != nullptr && channel < in.shape.channels_a;
    const auto through_norm = [&](std::int64_t cell, float(&g)[N]) {
      float deviation[N], elsewhere[N], once_more[N];
      load(more.first + cell * more.stride, elsewhere, has_more);
      load(again.first + cell * again.stride, once_more, has_again);
      back.through_activation(cell, g, deviation);
      for (int i = 0; i < N; ++i) {
        g[i] = back.map.slope[i] * g[i] + tilt[i] * deviation[i] + level[i] + elsewhere[i] +
               once_more[i];
      }
    };
#pragma unroll 2
    for (std::int64_t cell = place.begin; cell < place.end; cell += place.rows) {
      const Spot<kBorder> spot(back.extent, cell);
      float g[N];
      back.load_gradient(spot.place, g);
      through_norm(cell, g);
      if (spot.is_only) store(g, grad_x.first + cell * grad_x.stride);
    }
    if constexpr (kBorder) {
      place.for_each_edge(in.shape, [&](unsigned cell) {
        float g[N];
        back.load_edge_gradient(cell, g);
        through_norm(cell, g);
        store(g, grad_x.first + cell * grad_x.stride);
      });
    }
  });
}

bool is_empty(const NormShape& shape) {
  return shape.batch * shape.cells() * shape.channels() == 0;
}

template <typename T>
bool has_aligned_parameters(const NormInputs<T>& in) {
  return is_aligned(in.bias) && is_aligned(in.scale) && is_aligned(in.shift) &&
         fits_packs(in.film_stride, in.film);
}

struct Grid {
  explicit Grid(const NormShape& shape)
      : slabs(static_cast<unsigned>(shape.batch * slab_count(shape))),
        groups(static_cast<unsigned>(shape.batch * shape.groups)) {}
  unsigned slabs, groups;
};

// Calls body with what the passes are compiled for: packs or single channels, f and border.
template <typename T, typename Body>
void with_options(const NormInputs<T>& in, bool packs, const Body& body) {
  const auto with_size = [&]<int N>(std::integral_constant<int, N> n) {
    const auto with_f = [&](auto f) {
      in.shape.border ? body(n, f, std::true_type()) : body(n, f, std::false_type());
    };
    in.f == Activation::kSilu ? with_f(Silu()) : with_f(Gelu());
  };
  packs ? with_size(std::integral_constant<int, kPackSize<T>>())
        : with_size(std::integral_constant<int, 1>());
}

}  // namespace

std::int64_t norm_workspace_size(const NormShape& shape) {
  return shape.batch * shape.channels() * (5 + kGradientSums * slab_count(shape));
}

template <typename T, typename Out>
void norm_activation(const NormInputs<T>& in, const NormOutputs<Out>& out, float* workspace,
                     void* stream, NormForm form) {
  if (is_empty(in.shape)) return;
  const bool packs = fits_packs(in.shape.channels_a, in.a) &&
                     fits_packs(in.shape.channels_b, in.b) && is_aligned(out.out);
  if (form == NormForm::kAuto) {
    const auto plan =
        packs && has_aligned_parameters(in) ? plan_cluster(in.shape, sizeof(T)) : std::nullopt;
    if (plan) return norm_in_clusters(in, out, *plan, stream);
  }
  const Workspace work(in.shape, workspace);
  const Grid grid(in.shape);
  with_options(in, packs,
               [&]<int N, typename F, bool kBorder>(std::integral_constant<int, N>, F,
                                                    std::bool_constant<kBorder>) {
                 launch_kernel(add_moments<T, N>, grid.slabs, kThreads, 0, stream, in, work);
                 launch_kernel(close_statistics<T>, grid.groups, kThreads, 0, stream, in, work,
                               out.mean, out.rstd);
                 launch_kernel(map_forward<T, Out, N, F, kBorder>, grid.slabs, kThreads, 0, stream,
                               in, work, out);
               });
  check_launch("norm_activation");
}

template <typename T>
void norm_activation_backward(const NormInputs<T>& in, const float* mean, const float* rstd,
                              const NormArrivals<T>& arrivals, const NormGradients<T>& grad,
                              float* workspace, void* stream, NormForm form) {
  if (is_empty(in.shape)) return;
  const bool packs =
      fits_packs(in.shape.channels_a, in.a, arrivals.out, arrivals.a, arrivals.again, grad.a) &&
      fits_packs(in.shape.channels_b, in.b, arrivals.b, grad.b);
  if (form == NormForm::kAuto) {
    const auto plan = packs && has_aligned_parameters(in)
                          ? plan_cluster_backward(in.shape, sizeof(T))
                          : std::nullopt;
    if (plan) return norm_backward_in_clusters(in, mean, rstd, arrivals, grad, *plan, stream);
  }
  const Workspace work(in.shape, workspace);
  const Grid grid(in.shape);
  with_options(in, packs,
               [&]<int N, typename F, bool kBorder>(std::integral_constant<int, N>, F,
                                                    std::bool_constant<kBorder>) {
                 launch_kernel(restore_coefficients<T>, grid.groups, kThreads, 0, stream, in, work,
                               mean, rstd);
                 launch_kernel(add_gradients<T, N, F, kBorder>, grid.slabs, kThreads, 0, stream, in,
                               work, arrivals.out);
                 launch_kernel(close_gradients<T>, grid.groups, kThreads, 0, stream, in, work, rstd,
                               grad);
                 launch_kernel(map_backward<T, N, F, kBorder>, grid.slabs, kThreads, 0, stream, in,
                               work, arrivals, grad);
               });
  check_launch("norm_activation_backward");
}

template void norm_activation(const NormInputs<float>&, const NormOutputs<float>&, float*, void*,
                              NormForm);
template void norm_activation(const NormInputs<BFloat16>&, const NormOutputs<BFloat16>&, float*,
                              void*, NormForm);
template void norm_activation(const NormInputs<BFloat16>&, const NormOutputs<Fp8>&, float*, void*,
                              NormForm);
template void norm_activation_backward(const NormInputs<float>&, const float*, const float*,
                                       const NormArrivals<float>&, const NormGradients<float>&,
                                       float*, void*, NormForm);
template void norm_activation_backward(const NormInputs<BFloat16>&, const float*, const float*,
                                       const NormArrivals<BFloat16>&,
                                       const NormGradients<BFloat16>&, float*, void*, NormForm);

}  // namespace slift::kernels::cuda
