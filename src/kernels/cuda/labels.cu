#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kLabelThreads = 64;

// A block per row, a thread per Philox block of four components. The sphere's length is summed by
// one thread in the order of the CPU reference, so both kinds of label have the reference's bits.
__global__ void draw_labels_kernel(LabelArgs args) {
  const std::int64_t row = blockIdx.x;
  float* const label = args.out + row * args.dim;
  const Stream stream{args.seed, args.purpose, static_cast<std::uint64_t>(args.index[row]),
                      static_cast<std::uint32_t>(args.step ? *args.step : 0)};
  for (std::int64_t first = 4 * threadIdx.x; first < args.dim; first += 4 * kLabelThreads) {
    float four[4];
    stream_normals(stream, static_cast<std::uint32_t>(first / 4), four);
    for (int j = 0; j < 4 && first + j < args.dim; ++j) label[first + j] = four[j];
  }
  if (args.kind == LabelKind::kGaussian) return;

  __shared__ float length;
  __syncthreads();
  if (threadIdx.x == 0) {
    float squares = 0;
    for (std::int64_t j = 0; j < args.dim; ++j) {
      squares = rounded::step(label[j], label[j], squares);
    }
    length = rounded::root(squares);
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < args.dim; j += kLabelThreads) {
    label[j] = rounded::div(label[j], length);
  }
}

}  // namespace

void draw_labels(const LabelArgs& args, void* stream) {
  if (args.rows == 0 || args.dim == 0) return;
  launch_kernel(draw_labels_kernel, static_cast<unsigned>(args.rows), kLabelThreads, 0, stream,
                args);
  check_launch("draw_labels");
}

}  // namespace slift::kernels::cuda
