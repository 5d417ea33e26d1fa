// As much of CUDA's header of that name as the kernels use: maps of tensors, for copies of boxes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
enum CUresult { CUDA_SUCCESS };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

// A tensor of bfloat16; strides, of all dimensions but the first, are in bytes. A box takes every
// step-th of `box` numbers.
struct CUtensorMap {
  static constexpr unsigned kMost = 5;
  unsigned rank;
  std::byte* data;
  cuuint64_t sizes[kMost], strides[kMost - 1];
  cuuint32_t box[kMost], steps[kMost];
};

inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                       void* data, const cuuint64_t* sizes,
                                       const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* steps, CUtensorMapInterleave,
                                       CUtensorMapSwizzle, CUtensorMapL2promotion,
                                       CUtensorMapFloatOOBfill) {
  map->rank = rank;
  map->data = static_cast<std::byte*>(data);
  std::copy_n(sizes, rank, map->sizes);
  std::copy_n(strides, rank - 1, map->strides);
  std::copy_n(box, rank, map->box);
  std::copy_n(steps, rank, map->steps);
  return CUDA_SUCCESS;
}

enum cudaDriverEntryPointQueryResult {};
constexpr int cudaEnableDefault = 0;
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, int,
                                                    cudaDriverEntryPointQueryResult*) {
  *function = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
  return cudaSuccess;
}
