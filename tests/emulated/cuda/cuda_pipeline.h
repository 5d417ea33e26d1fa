// As much of CUDA's header of that name as the kernels use, for emulator.h.
#pragma once

#include <cstddef>
#include <cstring>

#include "emulator.h"

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  const auto copy = [=] { std::memcpy(to, from, bytes); };
  emulated::begin(emulated::Beside::kCopies, copy, to, bytes);
}
inline void __pipeline_commit() { emulated::close_group(emulated::Beside::kCopies); }
inline void __pipeline_wait_prior(std::size_t all_but) {
  emulated::await_groups(emulated::Beside::kCopies, all_but);
}
