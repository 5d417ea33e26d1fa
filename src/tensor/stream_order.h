// The order between two CUDA streams; for sources that are compiled with CUDA.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

namespace slift {

// Lets what `then` is given from now on begin when `first` has done what it was given so far. While
// `first` is being recorded, `then` joins the recording.
inline void order(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& then) {
  if (first == then) return;
  at::cuda::CUDAEvent done;
  done.record(first);
  done.block(then);
}

}  // namespace slift
