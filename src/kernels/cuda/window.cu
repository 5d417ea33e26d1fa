#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr unsigned kWindowThreads = 256;
constexpr int kPackedChannels = kPackSize<BFloat16>;
constexpr int kStatesAtOnce = 4;  // moved by a thread, so that their loads are under way together

// One thread per pack of the output. `Index` holds the number of packs: divisions of 64 bits would
// take longer than the memory.
template <typename Index>
__global__ void __launch_bounds__(kWindowThreads)
    pack_window_kernel(PackWindowArgs args, Index count) {
  begin_after_previous();
  const Index e = static_cast<Index>(blockIdx.x) * kWindowThreads + threadIdx.x;
  if (e >= count) return;
  const auto height = static_cast<Index>(args.shape.height);
  const auto width = static_cast<Index>(args.shape.width);
  const auto channels = static_cast<Index>(args.shape.channels);
  const auto packs = static_cast<Index>(args.packed / kPackedChannels);
  const Index out_height = args.border ? height + 2 : height;
  const Index out_width = args.border ? width + 2 : width;
  const Index first = e % packs * kPackedChannels, place = e / packs;
  const Index column = place % out_width, line = place / out_width;
  const Index row = line % out_height, sample = line / out_height;
  const Index y = args.border ? (row + height - 1) % height : row;
  const Index x = args.border ? (column + width - 1) % width : column;

  const std::int64_t cells = args.shape.cells(), planes = args.shape.planes();
  const float* const cell = args.window + sample * planes * cells + y * args.shape.width + x;
  float values[kPackedChannels] = {};
#pragma unroll
  for (int j = 0; j < kPackedChannels; ++j) {
    if (first + j < planes) values[j] = __ldg(cell + (first + j) * cells);
  }
  Index channel = first % channels;
#pragma unroll
  for (int j = 0; j < kPackedChannels; ++j) {
    if (first + j < planes) {
      const float centred = rounded::add(values[j], -__ldg(args.mean + channel));
      values[j] = rounded::div(centred, __ldg(args.std + channel));
    }
    if (++channel == channels) channel = 0;
  }
  store(values, args.out + static_cast<std::int64_t>(e) * kPackedChannels);
}

// One thread per number of a state: it alone reads and writes that place in all states of the
// window, so that they can move in place. The window is written, and must not go through __ldg().
template <typename T, typename Index>
__global__ void __launch_bounds__(kWindowThreads)
    push_state_kernel(PushStateArgs<T> args, Index count) {
  begin_after_previous();
  const Index e = static_cast<Index>(blockIdx.x) * kWindowThreads + threadIdx.x;
  if (e >= count) return;
  const auto cells = static_cast<Index>(args.shape.cells());
  const auto size = static_cast<Index>(args.shape.state_size());
  const Index sample = e / size, place = e % size, channel = place / cells, cell = place % cells;

  const std::int64_t stride = args.shape.state_size(), last = args.shape.length - 1;
  float* const states = args.window + sample * args.shape.length * stride + place;
  const float net = to_float(args.net[sample * args.sample_stride + channel * args.channel_stride +
                                      cell * args.cell_stride]);
  const float base = args.offset ? args.offset[channel] : states[last * stride];
  const float next = rounded::add(base, rounded::mul(args.scale[channel], net));
  for (std::int64_t i = 0; i < last; i += kStatesAtOnce) {
    float moved[kStatesAtOnce];
#pragma unroll
    for (int j = 0; j < kStatesAtOnce; ++j) {
      if (i + j < last) moved[j] = states[(i + j + 1) * stride];
    }
#pragma unroll
    for (int j = 0; j < kStatesAtOnce; ++j) {
      if (i + j < last) states[(i + j) * stride] = moved[j];
    }
  }
  states[last * stride] = next;
}

// Calls launch(blocks, count) for one thread per element, `count` in the type of index that
// suffices: a block's threads behind the last element have indices, too.
template <typename Launch>
void with_index(std::int64_t count, const Launch& launch) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kWindowThreads - 1) / kWindowThreads);
  if (count <= INT64_C(0xffffffff) - kWindowThreads) {
    launch(blocks, static_cast<std::uint32_t>(count));
  } else {
    launch(blocks, count);
  }
}

}  // namespace

void pack_window(const PackWindowArgs& args, void* stream) {
  const std::int64_t around = args.border ? 2 : 0;
  const std::int64_t packs = args.shape.batch * (args.shape.height + around) *
                             (args.shape.width + around) * (args.packed / kPackedChannels);
  with_index(packs, [&]<typename Index>(unsigned blocks, Index count) {
    launch_early(pack_window_kernel<Index>, blocks, kWindowThreads, 0, stream, args, count);
  });
  check_launch("pack_window");
}

template <typename T>
void push_state(const PushStateArgs<T>& args, void* stream) {
  with_index(args.shape.batch * args.shape.state_size(), [&]<typename Index>(unsigned blocks,
                                                                             Index count) {
    launch_early(push_state_kernel<T, Index>, blocks, kWindowThreads, 0, stream, args, count);
  });
  check_launch("push_state");
}

template void push_state(const PushStateArgs<float>&, void*);
template void push_state(const PushStateArgs<BFloat16>&, void*);

}  // namespace slift::kernels::cuda
