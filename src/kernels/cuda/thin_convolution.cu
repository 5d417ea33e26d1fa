#include "kernels/cuda/thin_convolution.h"
#include "kernels/cuda/thin_parts.h"

namespace slift::kernels::cuda {
namespace {

constexpr int kMostInputs = 256;

bool goes_to_few(const ConvShape& shape) {
  return shape.outputs == kFewOutputs && shape.inputs % 8 == 0 && shape.inputs <= kMostInputs;
}

bool comes_from_few(const ConvShape& shape) {
  return shape.inputs == kFewInputs && shape.outputs % 8 == 0;
}

}  // namespace

bool can_convolve_thin(const ConvProblem& problem) {
  const ConvShape& shape = problem.shape;
  return problem.pass == ConvPass::kForward && problem.type == ConvType::kBFloat16 &&
         !problem.residual && shape.kernel == 3 && shape.stride == 1 && shape.border <= 1 &&
         (goes_to_few(shape) || comes_from_few(shape));
}

void convolve_thin(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  goes_to_few(problem.shape) ? convolve_to_few(problem.shape, operands, queue)
                             : convolve_from_few(problem.shape, operands, queue);
}

}  // namespace slift::kernels::cuda
