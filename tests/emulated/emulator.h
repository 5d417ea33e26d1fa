// Runs CUDA kernels on the CPU, so that machines without a GPU can test them, and a race detector
// can watch them.
//
// A CUDA thread is a fiber, a block an operating system's thread that runs its fibers in turn, each
// until it waits; the blocks of a cluster run at the same time, clusters one after the other.
// Shared memory is thread_local memory. Built with -fsanitize=thread, ThreadSanitizer takes every
// fiber for a thread and is told of the order that the barriers of CUDA make, and of no other:
// accesses to shared or global memory that nothing orders are reported, whatever the order they ran
// in, also between blocks of a launch.
//
// Not as on a GPU: loads by the tensor memory accelerator are done when they begin, a warp does not
// run in step, functions of the hardware are exact, and no kernel begins before the one ahead has
// ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulated {

struct Extents {
  unsigned x = 1, y = 1, z = 1;
};

struct Launch {
  Extents blocks, threads;
  unsigned cluster = 1;  // blocks side by side in x
};

// Runs `kernel` once for every thread, and returns when all have ended.
void run(const Launch& launch, const std::function<void()>& kernel);

// The rest is for kernels.

// Of the calling CUDA thread.
struct Place {
  Extents thread, block, threads, blocks;
  unsigned lane = 0, rank = 0;  // in its warp, of its block in the cluster
};
Place place();

// __syncthreads() and __syncwarp(): for all threads that have not ended.
void meet_block();
void meet_warp();

// All lanes of a warp give `words` words, at most kMostWords, and get those of lane 0, 1, ... 31.
// Orders no accesses to memory.
inline constexpr unsigned kWarp = 32, kMostWords = 8;
void exchange(const std::uint32_t* mine, unsigned words, std::uint32_t* all);

// The two halves of a meeting of all threads of a cluster. Order no accesses to memory, but come
// behind what was published.
void arrive_at_cluster();
void wait_for_cluster();
void publish();

// Work beside the thread that began it, in groups: it is done when that thread waits for it, so
// that who does not wait misses it. The bytes at `written` count as accessed from the beginning.
enum class Beside { kCopies, kStores, kProducts };
void begin(Beside kind, std::function<void()> work, void* written = nullptr, std::size_t bytes = 0);
void close_group(Beside kind);
void await_groups(Beside kind, std::size_t all_but);

// Places in shared memory, and where they are: in this block, or the same place in another of the
// cluster.
std::uint32_t shared_address(const void* p);
void* pointer_to(std::uint32_t address);
void* in_block(unsigned rank, std::uint32_t address);

// A barrier in shared memory that counts arrivals and bytes; see Barrier of instructions.h. Whoever
// waits comes behind all that arrived or brought bytes; all of them must come behind init().
struct alignas(8) Counter {
  std::int32_t bytes;               // to come
  std::uint8_t expected, arriving;  // threads, of a phase and still to come
  std::uint16_t phase;
};
void init(Counter& counter, unsigned arrivals);
void arrive(Counter& counter, std::int32_t expected_bytes);
void bring(Counter& counter, std::int32_t bytes);
void wait(const Counter& counter, unsigned phase);

}  // namespace emulated
