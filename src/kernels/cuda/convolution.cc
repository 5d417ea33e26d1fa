// A convolution as a graph of cuDNN's operations, and plans to run it.
#include "kernels/cuda/convolution.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/convolution_plans.h"

namespace slift::kernels::cuda {
namespace {

enum Uid : std::int64_t { kX = 1, kW, kY, kResidual, kBias, kScale, kFirstVirtual };

using Extents = std::vector<std::int64_t>;

// A tensor [n, c, h, w], channels-last. Virtual ones, from kFirstVirtual on, exist in registers
// only.
Descriptor tensor(std::int64_t uid, cudnnDataType_t type, const Extents& extents) {
  const std::int64_t c = extents[1], h = extents[2], w = extents[3];
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
      .set(CUDNN_ATTR_TENSOR_STRIDES, Extents{h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, uid >= kFirstVirtual);
  d.finalize();
  return d;
}

Descriptor convolution(const ConvShape& shape, ConvType type) {
  // With this type tensor cores add up fp8 products at full speed, with fewer bits than float32.
  const cudnnDataType_t sums =
      type == ConvType::kFp8 ? CUDNN_DATA_FAST_FLOAT_FOR_FP8 : CUDNN_DATA_FLOAT;
  const Extents two_strides = {shape.stride, shape.stride}, border = {shape.border, shape.border};
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sums)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, two_strides)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Extents{1, 1})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, border)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, border);
  d.finalize();
  return d;
}

// The names cuDNN gives the attributes of one pass.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

Descriptor pointwise(cudnnPointwiseMode_t mode) {
  Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  d.finalize();
  return d;
}

// What is done to the sums before they are rounded: multiplied by or added to a tensor.
struct Term {
  cudnnPointwiseMode_t mode;
  Uid uid;
  cudnnDataType_t type;
  Extents extents;
};

std::vector<Term> terms_of(const ConvProblem& problem, const Extents& result) {
  std::vector<Term> terms;
  if (problem.type == ConvType::kFp8) {
    terms.push_back({CUDNN_POINTWISE_MUL, kScale, CUDNN_DATA_FLOAT, {1, 1, 1, 1}});
  }
  // The residual before the bias: cuDNN's fused kernels are faster this way round.
  if (problem.residual) {
    terms.push_back({CUDNN_POINTWISE_ADD, kResidual, CUDNN_DATA_BFLOAT16, result});
  }
  if (problem.bias) {
    terms.push_back({CUDNN_POINTWISE_ADD, kBias, CUDNN_DATA_BFLOAT16, {1, result[1], 1, 1}});
  }
  return terms;
}

}  // namespace

std::string ConvProblem::key() const {
  const char* names[] = {"forward", "input_gradient", "weight_gradient"};
  const std::string mixed =
      mixed_a + mixed_b > 0 ? fmt::format("+mixed {}+{}", mixed_a, mixed_b) : "";
  return fmt::format("{}{}{}{}{}{}{} batch {} in {} {}x{} out {} kernel {} stride {} border {}",
                     type == ConvType::kFp8 ? "fp8 " : "", names[static_cast<int>(pass)],
                     residual ? "+residual" : "", bias ? "+bias" : "", mixed,
                     periodic ? "+periodic" : "", grows ? "+grows" : "", shape.batch, shape.inputs,
                     shape.height, shape.width, shape.outputs, shape.kernel, shape.stride,
                     shape.border);
}

// One handle for all threads: who calls it holds the lock.
std::mutex& cudnn_mutex() {
  static std::mutex mutex;
  return mutex;
}

cudnnHandle_t cudnn_handle() {
  int device = 0;
  cudaGetDevice(&device);
  static std::map<int, cudnnHandle_t> handles;  // for the life of the process
  cudnnHandle_t& handle = handles[device];
  if (handle == nullptr) check_cudnn(cudnnCreate(&handle), "create");
  return handle;
}

ConvGraph::ConvGraph(const ConvProblem& problem) : graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  const ConvShape& shape = problem.shape;
  const Extents extents[] = {{shape.batch, shape.inputs, shape.height, shape.width},
                             {shape.outputs, shape.inputs, shape.kernel, shape.kernel},
                             {shape.batch, shape.outputs, shape.out_height(), shape.out_width()}};
  const PassNames names = names_of(problem.pass);
  const Uid result = problem.pass == ConvPass::kForward         ? kY
                     : problem.pass == ConvPass::kInputGradient ? kX
                                                                : kW;
  const Extents& result_extents = extents[result - kX];
  const std::vector<Term> terms = terms_of(problem, result_extents);
  // What holds the result after `done` of the terms: a virtual tensor until all are.
  const auto after = [&](std::size_t done) -> const Descriptor& {
    const bool all = done == terms.size();
    return keep(tensor(all ? result : kFirstVirtual + static_cast<std::int64_t>(done),
                       all ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT, result_extents));
  };
  const cudnnDataType_t type =
      problem.type == ConvType::kFp8 ? CUDNN_DATA_FP8_E4M3 : CUDNN_DATA_BFLOAT16;

  Descriptor operation(names.operation);
  const Descriptor* last = &after(0);
  for (const auto& [name, uid] : {std::pair{names.x, kX}, {names.w, kW}, {names.y, kY}}) {
    operation.set_descriptor(name,
                             uid == result ? *last : keep(tensor(uid, type, extents[uid - kX])));
  }
  operation.set_descriptor(names.convolution, keep(convolution(shape, problem.type)))
      .set(names.alpha, 1.0f)
      .set(names.beta, 0.0f)
      .finalize();
  std::vector<void*> operations = {keep(std::move(operation)).raw()};

  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Term& term = terms[i];
    const Descriptor& next = after(i + 1);
    Descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    d.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(pointwise(term.mode)))
        .set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *last)
        .set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                        keep(tensor(term.uid, term.type, term.extents)))
        .set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, next)
        .finalize();
    operations.push_back(keep(std::move(d)).raw());
    last = &next;
  }
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn_handle())
      .set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
      .finalize();
}

const Descriptor& ConvGraph::keep(Descriptor part) {
  return *parts_.emplace_back(std::make_unique<Descriptor>(std::move(part)));
}

namespace {

class CudnnPlan : public ConvPlan {
 public:
  CudnnPlan(std::shared_ptr<const ConvGraph> graph, const CudnnChoice& choice);
  std::int64_t workspace_bytes() const override { return workspace_; }
  void run(const ConvOperands& operands, void* workspace, void* stream) const override;

 private:
  std::shared_ptr<const ConvGraph> graph_;
  std::vector<Descriptor> kept_;
  Descriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::int64_t workspace_ = 0;
};

CudnnPlan::CudnnPlan(std::shared_ptr<const ConvGraph> graph, const CudnnChoice& choice)
    : graph_(std::move(graph)) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set_descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_->descriptor())
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine)
      .finalize();
  std::vector<void*> knobs;
  for (const auto& [type, value] : choice.knobs) {
    Descriptor knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize();
    knobs.push_back(knob.raw());
    kept_.push_back(std::move(knob));
  }
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) config.set_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  config.finalize();
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn_handle())
      .set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .finalize();
  workspace_ = plan_.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  kept_.push_back(std::move(engine));
  kept_.push_back(std::move(config));
}

void CudnnPlan::run(const ConvOperands& operands, void* workspace, void* stream) const {
  std::vector<std::int64_t> uids = {kX, kW, kY};
  std::vector<void*> pointers;
  for (const void* p : {operands.x, operands.w, operands.y}) {
    pointers.push_back(const_cast<void*>(p));
  }
  const void* const scale = operands.scale;
  for (const auto& [uid, p] :
       {std::pair{kResidual, operands.residual}, {kBias, operands.bias}, {kScale, scale}}) {
    if (p == nullptr) continue;
    uids.push_back(uid);
    pointers.push_back(const_cast<void*>(p));
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {workspace})
      .finalize();
  const std::lock_guard lock(cudnn_mutex());
  check_cudnn(cudnnSetStream(cudnn_handle(), static_cast<cudaStream_t>(stream)), "set stream");
  check_cudnn(cudnnBackendExecute(cudnn_handle(), plan_.raw(), pack.raw()), "run");
}

}  // namespace

std::unique_ptr<ConvPlan> make_plan(std::shared_ptr<const ConvGraph> graph,
                                    const CudnnChoice& choice) {
  return std::make_unique<CudnnPlan>(std::move(graph), choice);
}

}  // namespace slift::kernels::cuda
