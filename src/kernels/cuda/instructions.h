// Instructions that CUDA C++ has no words for: tanh, copies to shared memory, products by a warp,
// and of Hopper barriers in shared memory, boxes of a tensor copied there and back by the tensor
// memory accelerator, products by a warpgroup, blocks of a cluster that meet. All that is written
// in PTX is here, so that tests can run the kernels without a GPU (tests/emulated).
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace slift::kernels::cuda {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Errs by 2^-11.
__device__ inline float fast_tanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Starts copying 16 bytes to shared memory; zeros, and nothing is read, if not `wanted`. What other
// warps of the block copy as well should be kept near. The second-level cache is told to read on to
// the next multiple of 256 bytes: memory is slow at less.
template <bool kKeep>
__device__ void start_copy(const void* from, uint4* to, bool wanted) {
  const std::uint32_t where = shared_address(to);
  const int bytes = wanted ? 16 : 0;
  if constexpr (kKeep) {
    asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], 16, %2;"
                 :
                 : "r"(where), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                 :
                 : "r"(where), "l"(from), "r"(bytes)
                 : "memory");
  }
}
inline __device__ void close_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int kOpen>
__device__ void await_copies() {  // all but the last kOpen that were closed
  asm volatile("cp.async.wait_group %0;" : : "n"(kOpen) : "memory");
}

// sums [16, 8] += a [16, 16] b [8, 16]^T in bfloat16, sums in float32. Lane 4 g + q holds words q
// and q + 4, of two numbers each, of rows g (a0, a2) and g + 8 (a1, a3) of a and of row g of b (b0,
// b1), and columns 2 q and 2 q + 1 of rows g (sums[0], sums[1]) and g + 8 (sums[2], sums[3]).
inline __device__ void multiply_add(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Counts arrivals, and bytes that copies bring; a phase ends when all have come. Phases are 0, 1,
// 0, ...
class Barrier {
 public:
  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // Until the phase has ended. Before phase 0 of a new barrier there was a phase 1.
  __device__ void wait(unsigned phase) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address()),
        "r"(phase)
        : "memory");
  }
  // The same if what others of the cluster sent is to be read then.
  __device__ void wait_for_cluster(unsigned phase) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address()),
        "r"(phase)
        : "memory");
  }
  __device__ std::uint32_t address() const { return shared_address(&state_); }

 private:
  std::uint64_t state_;
};

// After init(), by the same thread, before a barrier of all threads.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What this thread wrote to shared memory becomes visible to copies that others begin later.
__device__ inline void publish_to_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Fetches a map, so that the first copy by it does not wait for that.
__device__ inline void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Begins to copy the box at channel c, place (x, y) of sample n; `barrier` expects its bytes. What
// lies outside the tensor is read as zeros, and not written.
__device__ inline void load_box(void* to, const CUtensorMap& map, Barrier& barrier, int c, int x,
                                int y, int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(barrier.address()), "r"(c), "r"(x), "r"(y), "r"(n)
      : "memory");
}

// The same of a map with one more dimension between x and y.
__device__ inline void store_box(const CUtensorMap& map, const void* from, int c, int x, int z,
                                 int y, int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], "
      "[%1];" ::"l"(&map),
      "r"(shared_address(from)), "r"(c), "r"(x), "r"(z), "r"(y), "r"(n)
      : "memory");
}

// Until all boxes that this thread stores have been read.
__device__ inline void wait_until_stores_have_read() {
  asm volatile(
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;" ::
          : "memory");
}

// Four matrices of 8 x 8 numbers of 16 bits: lane i names row i % 8 of matrix i / 8, and holds two
// numbers, 2 (i % 4) and the next, of row i / 4 of each.
__device__ inline void load_matrices(std::uint32_t address, std::uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}

// Each thread by itself: these need no converged warp. Who waits knows that all have arrived, and
// of what they wrote before, the barriers they have published.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ inline unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Where `address` of this block is in the block `rank`.
__device__ inline std::uint32_t address_in_block(unsigned rank, std::uint32_t address) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
// To the place `address` of this block in the block `rank`; `barrier` expects the bytes there.
__device__ inline void send_to_block(unsigned rank, std::uint32_t address, const Barrier& barrier,
                                     float2 v) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];" ::"r"(
          address_in_block(rank, address)),
      "r"(address_in_block(rank, barrier.address())), "f"(v.x), "f"(v.y)
      : "memory");
}
__device__ inline void send_to_block(unsigned rank, std::uint32_t address, const Barrier& barrier,
                                     float4 v) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, "
      "[%1];" ::"r"(address_in_block(rank, address)),
      "r"(address_in_block(rank, barrier.address())), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
      : "memory");
}

// Rows of 64 bfloat16 in groups of 8, as load_box() swizzles them; the groups lie `stride` bytes
// apart. The first row may be any of the box, the first number any multiple of 16. Of a transposed
// matrix these are columns, and its rows beyond the 64th lie `next` bytes further. Addresses in a
// cluster also name the block, which is no part of this.
__device__ inline std::uint64_t matrix_at(std::uint32_t address, std::uint32_t stride,
                                          std::uint32_t next = 16) {
  constexpr std::uint64_t kSwizzled = std::uint64_t{1} << 62;
  constexpr std::uint32_t kOfBlock = (1 << 18) - 1;
  return kSwizzled | static_cast<std::uint64_t>(stride >> 4) << 32 |
         static_cast<std::uint64_t>(next >> 4) << 16 | (address & kOfBlock) >> 4;
}

// multiply() only begins; a warpgroup calls these together: begin, multiply some, commit, and wait
// until all but the last kPending commits are done.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d += a b^T for 64 rows of a and 64 rows of b of 16 numbers each; d = a b^T unless `add`. b may be
// transposed in memory.
template <bool kTransposed>
__device__ void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, %35;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposed ? 1 : 0));
}

// d += a b^T for 64 rows of a and 128 rows of b of 16 numbers each; d = a b^T unless `add`. b may
// be transposed in memory.
template <bool kTransposed>
__device__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, %67;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposed ? 1 : 0));
}

}  // namespace slift::kernels::cuda
