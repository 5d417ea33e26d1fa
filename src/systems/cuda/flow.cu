#include <cuda_runtime.h>

#include "systems/cuda/device.h"
#include "systems/cuda/flow.h"
#include "systems/flow_multigrid.h"

namespace slift::cuda {

namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerMultiprocessor = 2;  // so that one computes while the other waits
constexpr int kWarps = kThreads / 32;

// The threads of a block of kThreads; `slots` is shared memory for kWarps values.
class BlockTeam {
 public:
  __device__ __forceinline__ explicit BlockTeam(double* slots) : slots_(slots) {}

  __device__ __forceinline__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int size() const { return kThreads; }
  __device__ __forceinline__ void sync() const { __syncthreads(); }
  __device__ __forceinline__ double sum(double x) const {
    return combine(x, [](double a, double b) { return a + b; });
  }
  __device__ __forceinline__ double max(double x) const {
    return combine(x, [](double a, double b) { return a > b ? a : b; });
  }

 private:
  template <typename Operation>
  __device__ __forceinline__ double combine(double x, const Operation& operation) const {
    for (int apart = 16; apart > 0; apart /= 2) {
      x = operation(x, __shfl_down_sync(0xFFFFFFFFu, x, apart));
    }
    if (rank() % 32 == 0) slots_[rank() / 32] = x;
    __syncthreads();
    double all = slots_[0];
    for (int warp = 1; warp < kWarps; ++warp) all = operation(all, slots_[warp]);
    __syncthreads();  // the slots are free again
    return all;
  }

  double* slots_;
};

// All that the kernels need; pointers are to device memory.
struct FlowDevice {
  FlowDevice(const flow::Reservoir& r, flow::WorkspacePlan plan)
      : reservoir(r), step(r.grid, plan), multigrid(r.grid, plan), workspace_size(plan.size()) {}

  flow::Reservoir reservoir;
  flow::StepLayout step;
  flow::MultigridLayout multigrid;
  int workspace_size;
  const double* permeability = nullptr;  // [count, cells]
  double* workspace = nullptr;           // [count, workspace_size]
  float* states = nullptr;               // [count, stored, window]
  std::int64_t* stopped_at = nullptr;    // [count]
  int crop = 0;
  std::int64_t stored = 0;

  __device__ double* own_workspace() const {
    return workspace + static_cast<std::size_t>(blockIdx.x) * workspace_size;
  }
};

__device__ void store_window(const BlockTeam& team, const FlowDevice& device, std::int64_t frame) {
  const int nx = device.reservoir.grid.nx, crop = device.crop, width = nx - crop;
  const double* const s = device.own_workspace() + device.step.saturation;
  float* const out = device.states + (blockIdx.x * device.stored + frame) * width * width;
  flow::for_each(team, width * width, [=](int i) {
    out[i] = static_cast<float>(s[(crop + i / width) * nx + crop + i % width]);
  });
}

__global__ void start_kernel(const __grid_constant__ FlowDevice device) {
  __shared__ double slots[kWarps];
  const BlockTeam team(slots);
  double* const workspace = device.own_workspace();
  flow::for_each(team, device.workspace_size, [=](int i) { workspace[i] = 0; });
  double* const s = workspace + device.step.saturation;
  const double connate_water = device.reservoir.fluids.connate_water();
  flow::for_each(team, device.reservoir.grid.cells(), [=](int i) { s[i] = connate_water; });
  if (team.rank() == 0) device.stopped_at[blockIdx.x] = -1;
  store_window(team, device, 0);
}

// Outer steps first .. first + steps - 1, then stores `frame`.
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    advance_kernel(const __grid_constant__ FlowDevice device, std::int64_t first,
                   std::int64_t steps, std::int64_t frame) {
  __shared__ double slots[kWarps];
  const BlockTeam team(slots);
  if (device.stopped_at[blockIdx.x] >= 0) return;  // the same for all threads
  double* const workspace = device.own_workspace();
  const double* const permeability =
      device.permeability + static_cast<std::size_t>(blockIdx.x) * device.reservoir.grid.cells();
  const auto solve = [&](const flow::TwoPointOperator& a, const double* rhs, double tolerance,
                         double* x) {
    return flow::Multigrid(team, device.multigrid, a, workspace).solve(rhs, tolerance, x) >= 0;
  };
  for (std::int64_t step = first; step < first + steps; ++step) {
    if (!flow::advance(team, device.reservoir, device.step, permeability, workspace, solve)) {
      if (team.rank() == 0) device.stopped_at[blockIdx.x] = step;
      return;
    }
  }
  store_window(team, device, frame);
}

}  // namespace

std::vector<std::int64_t> simulate_flow(const FlowRun& run, std::span<const double> permeability,
                                        std::span<float> states) {
  const std::size_t count =
      permeability.size() / static_cast<std::size_t>(run.reservoir.grid.cells());
  FlowDevice device(run.reservoir, {});
  const DeviceArray<double> fields(permeability);
  DeviceArray<double> workspace(count * static_cast<std::size_t>(device.workspace_size));
  DeviceArray<float> frames(states.size());
  DeviceArray<std::int64_t> stopped_at(count);
  device.permeability = fields.data();
  device.workspace = workspace.data();
  device.states = frames.data();
  device.stopped_at = stopped_at.data();
  device.crop = run.crop;
  device.stored = run.stored;

  const auto blocks = static_cast<unsigned>(count);
  start_kernel<<<blocks, kThreads>>>(device);
  check("flow: start");
  for (std::int64_t frame = 1; frame < run.stored; ++frame) {
    advance_kernel<<<blocks, kThreads>>>(device, (frame - 1) * run.store_every + 1, run.store_every,
                                         frame);
    check("flow: advance");
  }
  synchronise("flow");
  std::vector<std::int64_t> result(count);
  stopped_at.download(result);
  frames.download(states);
  return result;
}

}  // namespace slift::cuda
