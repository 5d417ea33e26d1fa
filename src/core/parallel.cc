#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace slift {
namespace {

using Body = std::function<void(std::int64_t, int)>;

// Whether this thread is inside a body.
thread_local bool t_busy = false;

class Busy {
 public:
  Busy() : before_(t_busy) { t_busy = true; }
  ~Busy() { t_busy = before_; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool before_;
};

// One call of parallel_for_slots(): whoever joins takes the next index until there is none left.
class Work {
 public:
  Work(std::int64_t n, int slots, const Body& body) : n_(n), slots_(slots), body_(body) {}

  int slots() const { return slots_; }
  void take_part(int slot) {
    const Busy busy;
    for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_;) {
      try {
        body_(i, slot);
      } catch (...) {
        const std::lock_guard lock(failure_mutex_);
        failure_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::int64_t n_;
  int slots_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

class Team {
 public:
  // Never destroyed: its threads may be asleep in it when the process ends.
  static Team& instance() {
    static Team& team = *new Team;
    return team;
  }

  // Whether the work was done; not if the team is at another's.
  bool run(Work& work) {
    const std::unique_lock lock(turn_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    while (static_cast<int>(threads_.size()) + 1 < work.slots()) {
      threads_.emplace_back([this, slot = static_cast<int>(threads_.size()) + 1] { serve(slot); });
    }
    work_ = &work;
    door_.store(kOpen, std::memory_order_release);
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
    work.take_part(0);
    // Those inside finish what they began; those not yet inside find the door closed.
    int inside = door_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    while (inside != 0) {
      door_.wait(inside, std::memory_order_acquire);
      inside = door_.load(std::memory_order_acquire);
    }
    return true;
  }

 private:
  [[noreturn]] void serve(int slot) {
    // Calls from within a body, of OpenMP's or of libraries that ask it, get one thread.
    omp_set_num_threads(1);
    for (std::uint32_t seen = 0;;) {
      calls_.wait(seen, std::memory_order_acquire);
      seen = calls_.load(std::memory_order_acquire);
      if (!enter()) continue;
      if (slot < work_->slots()) work_->take_part(slot);
      if (door_.fetch_sub(1, std::memory_order_acq_rel) == 1) door_.notify_one();
    }
  }

  bool enter() {
    int state = door_.load(std::memory_order_relaxed);
    while ((state & kOpen) != 0) {
      if (door_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  static constexpr int kOpen = 1 << 30;

  std::mutex turn_;
  std::vector<std::thread> threads_;
  Work* work_ = nullptr;                 // valid for those inside
  std::atomic<int> door_{0};             // kOpen, plus how many threads are inside
  std::atomic<std::uint32_t> calls_{0};  // goes up with every call: what idle threads wait for
};

}  // namespace

void parallel_for_slots(std::int64_t n, const Body& body) {
  const std::int64_t slots = std::min<std::int64_t>(n, t_busy ? 1 : omp_get_max_threads());
  Work work(n, static_cast<int>(slots), body);
  if (slots < 2 || !Team::instance().run(work)) work.take_part(0);
  work.rethrow();
}

void parallel_for(std::int64_t n, const std::function<void(std::int64_t)>& body) {
  parallel_for_slots(n, [&body](std::int64_t i, int) { body(i); });
}

void parallel_for_pieces(std::int64_t n, std::int64_t piece,
                         const std::function<void(std::int64_t, std::int64_t)>& body) {
  parallel_for((n + piece - 1) / piece,
               [&](std::int64_t i) { body(i * piece, std::min(n, (i + 1) * piece)); });
}

}  // namespace slift
