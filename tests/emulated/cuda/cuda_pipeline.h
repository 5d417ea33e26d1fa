// As much of CUDA's header of that name as the kernels use: copies are done at once.
#pragma once

#include <cstddef>
#include <cstring>

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(std::size_t) {}
