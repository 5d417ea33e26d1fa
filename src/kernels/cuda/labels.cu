#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

namespace slift::kernels::cuda {
namespace {

// One thread per row: the sphere's length is summed in the order of the CPU reference, so both
// kinds of label have the reference's bits. Labels are a negligible share of a training step.
__global__ void draw_labels_kernel(LabelArgs args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= args.rows) return;
  float* const label = args.out + row * args.dim;
  const Stream stream{args.seed, args.purpose, static_cast<std::uint64_t>(args.index[row]),
                      args.step};
  float squares = 0;
  for (std::int64_t first = 0; first < args.dim; first += 4) {
    float four[4];
    stream_normals(stream, static_cast<std::uint32_t>(first / 4), four);
    for (int j = 0; j < 4 && first + j < args.dim; ++j) {
      label[first + j] = four[j];
      squares = rounded::step(four[j], four[j], squares);
    }
  }
  if (args.kind == LabelKind::kSphere) {
    const float length = rounded::root(squares);
    for (std::int64_t j = 0; j < args.dim; ++j) label[j] = rounded::div(label[j], length);
  }
}

}  // namespace

void draw_labels(const LabelArgs& args, void* stream) {
  if (args.rows == 0 || args.dim == 0) return;
  constexpr int kThreads = 64;
  const auto blocks = static_cast<unsigned>((args.rows + kThreads - 1) / kThreads);
  draw_labels_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(args);
  check_launch("draw_labels");
}

}  // namespace slift::kernels::cuda
