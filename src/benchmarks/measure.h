// How benches measure: wall time between moments at which the device has nothing to do, memory as
// the allocator counts it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// Returns when the device has done all it was given; at once on the CPU.
void wait_for(const at::Device& device);

// Seconds of wall time that `work` takes on the device, from idle to idle.
double seconds_of(const at::Device& device, const std::function<void()>& work);

// The middle value, or the mean of the two middle ones; `values` must not be empty.
double median(std::vector<double> values);

// Milliseconds of one call of `work`: `calls` calls in a row, `repeats` times, the median. Warming
// up is the caller's: first calls build, tune and allocate. Throws Interrupted after an interrupt.
double milliseconds_per_call(const at::Device& device, std::int64_t calls, std::int64_t repeats,
                             const std::function<void()>& work);

// The same for a kernel, warmed up, and called as often as makes the share of clock and launch
// small. A kernel that takes the GPU less time than the host needs to launch it shows the latter.
double kernel_milliseconds(const at::Device& device, const std::function<void()>& kernel);

// The most bytes this process has had so far: on the CPU all that was resident, on a GPU, which
// must have held a tensor, those of LibTorch's allocator.
std::int64_t peak_memory(const at::Device& device);

}  // namespace slift
