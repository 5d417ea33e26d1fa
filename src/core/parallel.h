// Spreads independent work over threads that sleep when there is none.
//
// OpenMP's threads spin while they wait, for each other or for work: beside another busy process
// they then hold the cores that the slow one of them needs. These threads take work piece by piece,
// so a thread that gets half a core does half as much, and nobody waits for one that has not begun.
#pragma once

#include <cstdint>
#include <functional>

namespace slift {

// Calls body(i) for i in [0, n), in any order and possibly at once, on up to omp_get_max_threads()
// threads, the calling one among them; what it writes must depend on i alone. Calls from within a
// body, and a call while another thread's is under way, run on their calling thread alone. Throws,
// when all are done, one of the exceptions that bodies threw.
void parallel_for(std::int64_t n, const std::function<void(std::int64_t)>& body);

// The same with body(i, slot): 0 <= slot < omp_get_max_threads(), and no two bodies at once have
// one slot, so that each may own a buffer.
void parallel_for_slots(std::int64_t n, const std::function<void(std::int64_t, int)>& body);

// Calls body(begin, end) for pieces of [0, n), `piece` long but for the last: for work that is
// small for each single i.
void parallel_for_pieces(std::int64_t n, std::int64_t piece,
                         const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace slift
