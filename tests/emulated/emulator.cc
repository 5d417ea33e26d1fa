// Built without a sanitizer: what happens here must not look like an order that CUDA makes. For the
// same reason there are no locks but those that ThreadSanitizer does not see.
#include "emulator.h"

#include <sanitizer/tsan_interface.h>
#include <ucontext.h>

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

// What compiled code calls for its accesses to memory.
extern "C" void __tsan_read8(void*);
extern "C" void __tsan_write8(void*);
extern "C" void __tsan_write_range(void*, unsigned long);

namespace emulated {
namespace {

class SpinLock {
 public:
  explicit SpinLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~SpinLock() { flag_.clear(std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  std::atomic_flag& flag_;
};

std::atomic_flag counters;  // locks all of them

// Where fibers of one block meet. Those of two meetings in a row are told apart, as one may begin
// before all have left the other.
struct Meeting {
  unsigned arrived = 0, held = 0;  // held: how many there have been
  char order[2];                   // whose addresses ThreadSanitizer knows it by
};

// A stack and what ThreadSanitizer takes for a thread. They are kept, as they take long to make.
class Fiber {
 public:
  static constexpr std::size_t kStack = 128 * 1024;

  Fiber() : sanitized_(__tsan_create_fiber(0)), stack_(new char[kStack]) {}

  void begin(void (*body)()) {
    getcontext(&context);
    context.uc_stack = {stack_.get(), 0, kStack};
    context.uc_link = nullptr;
    makecontext(&context, body, 0);
  }
  void switch_here() const { __tsan_switch_to_fiber(sanitized_, __tsan_switch_to_fiber_no_sync); }

  ucontext_t context;

 private:
  void* sanitized_;
  std::unique_ptr<char[]> stack_;
};

// Those that no block uses; of the thread that launches.
std::deque<std::unique_ptr<Fiber>>& free_fibers() {
  static auto& all = *new std::deque<std::unique_ptr<Fiber>>;  // never destroyed
  return all;
}

std::unique_ptr<Fiber> take_fiber() {
  if (free_fibers().empty()) return std::make_unique<Fiber>();
  std::unique_ptr<Fiber> fiber = std::move(free_fibers().front());
  free_fibers().pop_front();
  return fiber;
}

struct Thread {
  Place place;
  bool ended = false;
  std::function<bool()> ready;  // whether it need not wait any more
  std::unique_ptr<Fiber> fiber = take_fiber();
  using Group = std::vector<std::function<void()>>;
  std::list<Group> beside[3] = {{{}}, {{}}, {{}}};  // by kind; the last group is open
};

struct Block;

struct Cluster {
  explicit Cluster(const Launch& launch)
      : blocks(launch.cluster),
        threads(launch.cluster * launch.threads.x * launch.threads.y * launch.threads.z) {}
  std::vector<std::atomic<Block*>> blocks;  // null when they have ended
  std::atomic<unsigned> begun{0};           // blocks
  std::atomic<unsigned> arrived{0};         // threads, of
  unsigned threads;
  char published = 0;  // ThreadSanitizer's name for that
};

struct Block {
  Block(const Launch& launch, Extents index, Cluster& of, const std::function<void()>& body,
        char& end);
  ~Block() {
    for (Thread& t : threads) free_fibers().push_back(std::move(t.fiber));
  }
  void run();  // by a thread of its own

  void resume(Thread& thread);
  void switch_to_main();
  void wait_until(std::function<bool()> ready);
  void end();
  // `live` of the fibers take part.
  void meet(Meeting& meeting, const unsigned& live, bool orders);

  unsigned warp() const { return static_cast<unsigned>(current - threads.data()) / kWarp; }

  Cluster& cluster;
  const std::function<void()>& kernel;
  char& end_of_launch;
  char start = 0;
  char* thread_pointer = nullptr;  // once it runs
  std::vector<Thread> threads;
  std::vector<Meeting> warp_meetings;
  std::vector<std::uint32_t> given;  // to exchange(), kMostWords of a thread
  std::vector<unsigned> live_lanes;
  Meeting block_meeting;
  unsigned live;
  ucontext_t main;
  void* sanitized_main = nullptr;
  Thread* current = nullptr;
};

thread_local Block* block = nullptr;

Block::Block(const Launch& launch, Extents index, Cluster& of, const std::function<void()>& body,
             char& end)
    : cluster(of), kernel(body), end_of_launch(end) {
  const Extents n = launch.threads;
  live = n.x * n.y * n.z;
  threads.resize(live);
  given.resize(std::size_t{live} * kMostWords);
  warp_meetings.resize((live + kWarp - 1) / kWarp);
  live_lanes.resize(warp_meetings.size());
  for (unsigned i = 0; i < live; ++i) {
    ++live_lanes[i / kWarp];
    threads[i].place = {{i % n.x, i / n.x % n.y, i / n.x / n.y},
                        index,
                        n,
                        launch.blocks,
                        i % kWarp,
                        index.x % launch.cluster};
  }
}

void fiber_main() {
  __tsan_acquire(&block->start);
  block->kernel();
  block->end();
}

void Block::run() {
  block = this;
  thread_pointer = static_cast<char*>(__builtin_thread_pointer());
  sanitized_main = __tsan_get_current_fiber();
  for (++cluster.begun; cluster.begun < cluster.blocks.size();) std::this_thread::yield();
  __tsan_release(&start);
  for (Thread& t : threads) t.fiber->begin(fiber_main);
  while (live > 0) {
    bool waits = true;
    for (Thread& t : threads) {
      if (t.ended || (t.ready && !t.ready())) continue;
      resume(t);
      waits = false;
    }
    if (!waits) continue;
    if (cluster.blocks.size() == 1) throw std::logic_error("emulator: threads wait for each other");
    std::this_thread::yield();
  }
  cluster.blocks[threads.front().place.rank] = nullptr;
  block = nullptr;
}

void Block::resume(Thread& thread) {
  current = &thread;
  thread.fiber->switch_here();
  swapcontext(&main, &thread.fiber->context);
}

void Block::wait_until(std::function<bool()> ready) {
  if (ready()) return;
  current->ready = std::move(ready);
  switch_to_main();
}

void Block::switch_to_main() {
  Thread& self = *current;
  __tsan_switch_to_fiber(sanitized_main, __tsan_switch_to_fiber_no_sync);
  swapcontext(&self.fiber->context, &main);
}

void close_if_all_came(Meeting& meeting, unsigned live) {
  if (meeting.arrived == 0 || meeting.arrived < live) return;
  meeting.arrived = 0;
  ++meeting.held;
}

void Block::end() {
  for (auto& groups : current->beside) groups.clear();
  __tsan_release(&end_of_launch);
  current->ended = true;
  const unsigned w = warp();
  --live;
  --live_lanes[w];
  close_if_all_came(block_meeting, live);
  close_if_all_came(warp_meetings[w], live_lanes[w]);
  switch_to_main();
}

void Block::meet(Meeting& meeting, const unsigned& of, bool orders) {
  const unsigned before = meeting.held;
  char* const order = &meeting.order[before % 2];
  if (orders) __tsan_release(order);
  ++meeting.arrived;
  close_if_all_came(meeting, of);
  wait_until([&meeting, before] { return meeting.held != before; });
  if (orders) __tsan_acquire(order);
}

}  // namespace

void run(const Launch& launch, const std::function<void()>& kernel) {
  char end_of_launch = 0;
  const Extents n = launch.blocks;
  if (n.x % launch.cluster != 0) throw std::runtime_error("emulator: a part of a cluster");
  for (unsigned i = 0; i < n.x * n.y * n.z; i += launch.cluster) {
    Cluster cluster(launch);
    std::vector<std::unique_ptr<Block>> blocks;
    for (unsigned rank = 0; rank < launch.cluster; ++rank) {
      const Extents index = {(i + rank) % n.x, i / n.x % n.y, i / n.x / n.y};
      blocks.push_back(std::make_unique<Block>(launch, index, cluster, kernel, end_of_launch));
      cluster.blocks[rank] = blocks.back().get();
    }
    std::vector<std::thread> threads;
    for (const auto& b : blocks) threads.emplace_back([&b] { b->run(); });
    for (std::thread& t : threads) t.join();
  }
  __tsan_acquire(&end_of_launch);
}

Place place() { return block->current->place; }

void meet_block() { block->meet(block->block_meeting, block->live, /*orders=*/true); }

void meet_warp() {
  const unsigned w = block->warp();
  block->meet(block->warp_meetings[w], block->live_lanes[w], /*orders=*/true);
}

void exchange(const std::uint32_t* mine, unsigned words, std::uint32_t* all) {
  const unsigned w = block->warp();
  const auto meet = [w] { block->meet(block->warp_meetings[w], block->live_lanes[w], false); };
  std::uint32_t* const given = block->given.data() + w * kWarp * kMostWords;
  const unsigned lane = place().lane;
  for (unsigned i = 0; i < words; ++i) given[lane * words + i] = mine[i];
  meet();
  for (unsigned i = 0; i < kWarp * words; ++i) all[i] = given[i];
  meet();
}

void arrive_at_cluster() { ++block->cluster.arrived; }

void wait_for_cluster() {
  // Kernels of this project meet once: nobody arrives a second time.
  Cluster& cluster = block->cluster;
  block->wait_until([&cluster] { return cluster.arrived == cluster.threads; });
  __tsan_acquire(&cluster.published);
}

void publish() { __tsan_release(&block->cluster.published); }

namespace {

std::list<Thread::Group>& groups(Beside kind) {
  return block->current->beside[static_cast<int>(kind)];
}

}  // namespace

void begin(Beside kind, std::function<void()> work, void* written, std::size_t bytes) {
  if (bytes > 0) __tsan_write_range(written, bytes);
  groups(kind).back().push_back(std::move(work));
}

void close_group(Beside kind) { groups(kind).emplace_back(); }

void await_groups(Beside kind, std::size_t all_but) {
  std::list<Thread::Group>& all = groups(kind);
  for (; all.size() > all_but + 1; all.pop_front()) {
    for (const auto& work : all.front()) work();
  }
}

std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const char*>(p) - block->thread_pointer);
}

void* pointer_to(std::uint32_t address) {
  return block->thread_pointer + static_cast<std::int32_t>(address);
}

void* in_block(unsigned rank, std::uint32_t address) {
  const Block* const there = block->cluster.blocks.at(rank);
  if (there == nullptr) throw std::logic_error("emulator: that block has ended");
  return there->thread_pointer + static_cast<std::int32_t>(address);
}

namespace {

void close_phase(Counter& c) {
  if (c.arriving > 0 || c.bytes != 0) return;
  c.arriving = c.expected;
  ++c.phase;
}

}  // namespace

void init(Counter& counter, unsigned arrivals) {
  __tsan_write8(&counter);
  const SpinLock lock(counters);
  const auto n = static_cast<std::uint8_t>(arrivals);
  counter = {0, n, n, 0};
}

void arrive(Counter& counter, std::int32_t expected_bytes) {
  __tsan_read8(&counter);
  __tsan_release(&counter);
  const SpinLock lock(counters);
  counter.bytes += expected_bytes;
  --counter.arriving;
  close_phase(counter);
}

void bring(Counter& counter, std::int32_t bytes) {
  __tsan_read8(&counter);
  __tsan_release(&counter);
  const SpinLock lock(counters);
  counter.bytes -= bytes;
  close_phase(counter);
}

void wait(const Counter& counter, unsigned phase) {
  __tsan_read8(const_cast<Counter*>(&counter));
  block->wait_until([&counter, phase] {
    const SpinLock lock(counters);
    return counter.phase % 2 != phase % 2;
  });
  __tsan_acquire(const_cast<Counter*>(&counter));
}

}  // namespace emulated
