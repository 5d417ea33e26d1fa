// Convolutions of bfloat16 or fp8 fields, each by the fastest plan for its shape, of cuDNN or our
// own (tile_convolution.h).
//
// Which plan that is, is found once by timing all that cuDNN proposes and ours, and remembered on
// disk per GPU and version of cuDNN (convolution_plans.cc): the same shape runs the same way from
// then on, with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace slift::kernels::cuda {

// y [batch, out_height, out_width, outputs] = sum over the kernel of w [outputs, kernel, kernel,
// inputs] and x [batch, height, width, inputs], which `border` zeros surround on all sides.
struct ConvShape {
  std::int64_t batch, inputs, height, width, outputs, kernel, stride, border;
  std::int64_t out_height() const { return (height + 2 * border - kernel) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * border - kernel) / stride + 1; }
};

// What is computed from what: y from (x, w), the gradient of x from that of y and w, the gradient
// of w from x and that of y.
enum class ConvPass { kForward, kInputGradient, kWeightGradient };

// Of x and w. Fp8 (e4m3) is for the forward pass alone; the sum over the kernel, which loses a few
// bits for speed, is multiplied by a number before anything is added.
enum class ConvType { kBFloat16, kFp8 };

struct ConvProblem {
  ConvShape shape;
  ConvPass pass = ConvPass::kForward;
  // Added to the result before it is rounded: a field of its shape, and a number per channel.
  bool residual = false, bias = false;
  ConvType type = ConvType::kBFloat16;
  // Channels of two fields [batch, out_height, out_width, ...]: their 1 x 1 convolution by weights
  // [outputs, mixed_a + mixed_b] is added to the sums. cuDNN has no plan for that.
  std::int64_t mixed_a = 0, mixed_b = 0;
  // The field that is convolved is periodic: what surrounds it are its images instead of zeros. Not
  // for cuDNN either.
  bool periodic = false;
  // The result of a 2 x 2 convolution to outputs = 4 n, [batch, h + 1, w + 1, 4 n], is four fields
  // that become one, y [batch, 2 h, 2 w, n], as interleave() (kernels.h) brings them together. Not
  // for cuDNN.
  bool grows = false;

  std::string key() const;  // names the problem in the file of plans
};

// Device pointers, aligned to 16 bytes; the result of the pass is written, the rest is read.
// All but x and w of fp8 is bfloat16 (for a weight gradient in float32 cuDNN has only slow plans),
// sums are float32. Channels are multiples of 8, those of fp8 of 16.
struct ConvOperands {
  const void* x;
  const void* w;
  const void* y;
  const void* residual = nullptr;
  const void* bias = nullptr;
  const float* scale = nullptr;  // the number of ConvType::kFp8
  const void* mixed_a = nullptr;
  const void* mixed_b = nullptr;
  const void* mixed_w = nullptr;
  // The kernels enqueued just before write neither weights nor the bias: our own kernels may read
  // these before those have ended.
  bool settled_weights = false;
};

class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }
  // Enqueues on `stream` (a cudaStream_t).
  virtual void run(const ConvOperands& operands, void* workspace, void* stream) const = 0;
};

// The plan for `problem` on the current GPU; throws if there is none. The first call for a shape
// that no file knows runs all candidates on `operands`, waits for them, and leaves the result
// written. Any thread may call.
const ConvPlan& tuned_plan(const ConvProblem& problem, const ConvOperands& operands, void* stream);

}  // namespace slift::kernels::cuda
