// The compute resources of this process: devices, threads, BLAS.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/torch_compat.h"

namespace slift {

// "cpu", or "cuda": GPU number `index`, which becomes this thread's current one. UserError if this
// machine or build has no such device, or it is of another kind than our kernels are for. Makes
// cuDNN choose algorithms that give the same bits every time, in full float32.
at::Device resolve_device(const std::string& name, int index = 0);

// Whether CUDA may round the inputs of float32 products and convolutions to 11 bits. Not allowed
// until asked for.
void allow_tf32(bool allowed);

// "cpu", or "cuda" and the name of the GPU: what the last bits of results depend on.
std::string describe_device(const at::Device& device);

// Whether it is a GPU that multiplies numbers of 8 bits, which those of compute capability 8.9 and
// more do.
bool multiplies_fp8(const at::Device& device);

// Threads for LibTorch, OpenBLAS and parallel_for; 0 means what OMP_NUM_THREADS says, which
// launchers of several processes set, or all cores.
void set_threads(std::int64_t threads);

// Makes malloc keep freed memory for reuse. Training frees and allocates the same megabytes every
// step; returned to the system each time, they cost a page fault per 4 KiB (a tenth of a step
// of a wide MLP or more). Call once, at the start of a program.
void keep_freed_memory();

// While it lives, what LibTorch, oneDNN and BLAS are asked for on this thread is done by this
// thread alone. A product that is split over threads may round differently at the edges of its
// parts, so whatever must have the same bits for any number of threads is computed under this
// guard.
class SerialMath {
 public:
  SerialMath();
  ~SerialMath();
  SerialMath(const SerialMath&) = delete;
  SerialMath& operator=(const SerialMath&) = delete;

 private:
  int threads_;
};

struct BlasInfo {
  std::string name;        // e.g. "OpenBLAS 0.3.21 ... (OpenMP)" or "unknown (reference?)"
  double gemm_gflops = 0;  // measured: float32, 512 x 512 x 512
  bool slow = false;       // below what any optimised BLAS reaches
};
BlasInfo inspect_blas();

}  // namespace slift
