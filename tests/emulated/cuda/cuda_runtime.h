// As much of CUDA's header of that name as the kernels use, for emulator.h.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "emulator.h"

#define __CUDACC__
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_ARCH_FEAT_SM90_ALL

// threadIdx.x and the like: whatever it is for the thread that asks.
template <emulated::Extents emulated::Place::*kOf, unsigned emulated::Extents::*kAxis>
struct PlaceNumber {
  operator unsigned() const { return emulated::place().*kOf.*kAxis; }
};
template <emulated::Extents emulated::Place::*kOf>
struct PlaceNumbers {
  PlaceNumber<kOf, &emulated::Extents::x> x;
  PlaceNumber<kOf, &emulated::Extents::y> y;
  PlaceNumber<kOf, &emulated::Extents::z> z;
};
inline constexpr PlaceNumbers<&emulated::Place::thread> threadIdx;
inline constexpr PlaceNumbers<&emulated::Place::block> blockIdx;
inline constexpr PlaceNumbers<&emulated::Place::threads> blockDim;
inline constexpr PlaceNumbers<&emulated::Place::blocks> gridDim;

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct dim3 : emulated::Extents {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : Extents{x, y, z} {}
};

// What kernels declare as `extern __shared__`; how much of it there is, a launch says.
namespace slift::kernels::cuda {
namespace {
constexpr unsigned kMostSharedBytes = 227 * 1024;
[[maybe_unused]] thread_local uint4 shared_memory[kMostSharedBytes / sizeof(uint4)];
[[maybe_unused]] thread_local __align__(1024) unsigned char tile_memory[kMostSharedBytes];
}  // namespace
}  // namespace slift::kernels::cuda

using std::max;
using std::min;
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
[[noreturn]] inline void __trap() { std::abort(); }

inline void __syncthreads() { emulated::meet_block(); }
inline void __syncwarp() { emulated::meet_warp(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {}
inline unsigned __clusterRelativeBlockRank() { return emulated::place().rank; }

// All lanes take part. Lanes count on from 0 after the last.
template <typename T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  constexpr unsigned kWords = sizeof(T) / sizeof(std::uint32_t);
  using Words = std::array<std::uint32_t, kWords>;
  const Words mine = std::bit_cast<Words>(value);
  std::array<Words, emulated::kWarp> all;
  emulated::exchange(mine.data(), kWords, all.data()->data());
  return std::bit_cast<T>(all[lane % emulated::kWarp]);
}
template <typename T>
T __shfl_xor_sync(unsigned all, T value, unsigned apart) {
  return __shfl_sync(all, value, emulated::place().lane ^ apart);
}

enum cudaError_t { cudaSuccess };
using cudaStream_t = void*;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

// Of compute capability 9.0. Blocks of kernels that fill the device have much to do on this one.
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 2,
  cudaDevAttrComputeCapabilityMajor = 9,
  cudaDevAttrComputeCapabilityMinor = 0
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute;
  return cudaSuccess;
}

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributeNonPortableClusterSizeAllowed
};
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}

enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeClusterDimension
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    emulated::Extents clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  unsigned dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

template <typename... Parameters, typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Args&... args) {
  emulated::Launch launch{config->gridDim, config->blockDim, 1};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      launch.cluster = attribute.val.clusterDim.x;
    }
  }
  emulated::run(launch, [&] { kernel(args...); });
  return cudaSuccess;
}
