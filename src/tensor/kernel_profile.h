// Which GPU kernels a piece of work spends its time in, as CUPTI records them: also those inside
// CUDA graphs and those that libraries launch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace slift {

struct KernelTime {
  std::string name;        // as shorten_kernel_name() gives it
  std::int64_t calls = 0;  // in all
  double ms = 0;           // all calls together, on the GPU
};

// Whether this build has CUPTI.
#ifdef SLIFT_WITH_CUPTI
inline constexpr bool kCanProfileKernels = true;
#else
inline constexpr bool kCanProfileKernels = false;
#endif

// Does `work` once, waits for the GPU, and returns its kernels, the most expensive first; copies
// and fills by the copy engine are not among them. One call at a time. UserError unless
// kCanProfileKernels, std::runtime_error if CUPTI fails or loses records.
std::vector<KernelTime> profile_kernels(const std::function<void()>& work);

// A kernel's name as the compiler mangled it, in words: without return type, parameters and the
// namespaces that say nothing. Template arguments stay. A name that is not mangled stays as it is.
std::string shorten_kernel_name(const std::string& name);

}  // namespace slift
