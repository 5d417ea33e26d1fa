// The order between two CUDA streams; for sources that are compiled with CUDA.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <map>

namespace slift {

// The stream for what this thread runs beside others on a GPU.
inline c10::cuda::CUDAStream side_stream(c10::DeviceIndex device) {
  thread_local std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  return streams.emplace(device, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device))
      .first->second;
}

// Lets what `then` is given from now on begin when `first` has done what it was given so far. While
// `first` is being recorded, `then` joins the recording.
inline void order(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& then) {
  if (first == then) return;
  at::cuda::CUDAEvent done;
  done.record(first);
  done.block(then);
}

}  // namespace slift
