// Who carries out the loops of the flow solver: one host thread, or the threads of a CUDA block.
//
// The solver is written once, as templates over a Team with
//   rank(), size()   which of how many threads this is
//   sync()           waits for all of them and makes their writes visible
//   sum(x), max(x)   over all threads, the same value for each, added in a fixed order
// and only through for_each() and sum_each(), so that no phase can forget to wait for the one
// before. All threads of a team must call the same functions in the same order.
#pragma once

#if defined(__CUDACC__)
#define SLIFT_TEAM __device__ __forceinline__
#else
#define SLIFT_TEAM inline
#endif

namespace slift::flow {

class SerialTeam {
 public:
  static constexpr int rank() { return 0; }
  static constexpr int size() { return 1; }
  void sync() const {}
  double sum(double x) const { return x; }
  double max(double x) const { return x; }
};

// body(i) for i in [0, n), in any order and possibly at once, then waits. What one call writes no
// other may touch.
template <typename Team, typename Body>
SLIFT_TEAM void for_each(const Team& team, int n, const Body& body) {
#if !defined(__CUDACC__)
#pragma GCC ivdep
#endif
  for (int i = team.rank(); i < n; i += team.size()) body(i);
  team.sync();
}

// The sum of body(i) over i in [0, n); otherwise as for_each().
template <typename Team, typename Body>
SLIFT_TEAM double sum_each(const Team& team, int n, const Body& body) {
  double sum = 0;
  for (int i = team.rank(); i < n; i += team.size()) sum += body(i);
  return team.sum(sum);
}

template <typename Team, typename Body>
SLIFT_TEAM double max_each(const Team& team, int n, const Body& body) {
  double largest = 0;
  for (int i = team.rank(); i < n; i += team.size()) {
    const double x = body(i);
    largest = x > largest ? x : largest;
  }
  return team.max(largest);
}

}  // namespace slift::flow
