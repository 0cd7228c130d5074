#include "runtime/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <system_error>

#include "base/affinity.h"
#include "runtime/cpu_spread.h"
#include "runtime/host/default_floats.h"

namespace qcg {
namespace {

using Clock = std::chrono::steady_clock;

// Incremented in every child of fork(). A pool with an older number was created before the fork and has no workers.
std::atomic<unsigned> fork_generation{0};

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  (void)registered;
}

void sleep_while_equal(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_sleepers(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() is true or the time is up. Returns whether done() was true.
template <class Done>
bool spin_until(int spin_us, Done done) {
  if (done()) return true;
  if (spin_us <= 0) return false;
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < 16; ++i) {
      pause_cpu();
      if (done()) return true;
    }
  } while (Clock::now() < deadline);
  return false;
}

// A job counts its items in 31 bits. Longer ranges run as several jobs.
constexpr int64_t kMaxJobItems = int64_t{1} << 31;
constexpr uint64_t kClosed = UINT32_MAX;  // a value of `next` that no job reaches

}  // namespace

// A job is (epoch, next item) in one word. So one compare-exchange takes a chunk and checks that the job is still the
// same. A worker that missed a job cannot take items of the next one by mistake:
//
//   state   [ epoch : 32 | next : 32 ]      closed before the fields below change, opened after
//
// The fields are written only while the state is closed, with release, and read with acquire. A thread that reads a new
// field therefore also sees that the old state was closed, and its compare-exchange fails.
struct ThreadPool::Shared {
  alignas(64) std::atomic<uint64_t> state{kClosed};
  alignas(64) std::atomic<uint32_t> done{0};   // items finished; the caller sleeps on it
  alignas(64) std::atomic<uint32_t> epoch{0};  // workers sleep on it
  std::atomic<uint32_t> sleepers{0};
  alignas(64) std::atomic<uint32_t> items{0};
  std::atomic<int64_t> base{0};
  std::atomic<ItemFn> fn{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  int threads = 1;
  int spin_us = 0;
  CpuSpread spread;

  explicit Shared(int most_threads) : spread(most_threads) {}
  void work(uint32_t job, int thread);
  void worker_main(int thread);
  void run_job(ItemFn run, void* argument, int64_t first, uint32_t count);
};

void ThreadPool::Shared::work(uint32_t job, int thread) {
  uint64_t s = state.load(std::memory_order_acquire);
  while (s >> 32 == job) {
    const uint32_t next = static_cast<uint32_t>(s);
    const uint32_t count = items.load(std::memory_order_acquire);
    spread.arrive(thread);  // also if no item is left: the thread may be late because it shares a CPU
    if (next >= count) return;
    const ItemFn run = fn.load(std::memory_order_acquire);
    void* const argument = context.load(std::memory_order_acquire);
    const int64_t first = base.load(std::memory_order_acquire) + next;
    // A chunk is half of an even share of the remaining items: large chunks first, single items at the end.
    const uint32_t chunk = std::max<uint32_t>(1, (count - next) / (2 * static_cast<uint32_t>(threads)));
    if (!state.compare_exchange_weak(s, s + chunk, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    run(argument, first, first + chunk, thread);
    const uint32_t finished = done.fetch_add(chunk, std::memory_order_seq_cst) + chunk;
    if (finished == count && caller_sleeps.load(std::memory_order_seq_cst)) wake_sleepers(done, 1);
    s = state.load(std::memory_order_acquire);
  }
}

void ThreadPool::Shared::worker_main(int thread) {
  const DefaultFloats floats;  // a new thread inherits the floating-point state of its creator
  uint32_t seen = 0;
  for (;;) {
    const auto changed = [&] { return epoch.load(std::memory_order_acquire) != seen; };
    if (!spin_until(spin_us, changed)) {
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      while (!changed()) sleep_while_equal(epoch, seen);
      sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
    // The epoch first: a stop between the two would else be taken for the job that was just seen, and slept through.
    seen = epoch.load(std::memory_order_acquire);
    if (stop.load(std::memory_order_acquire)) return;
    work(seen, thread);
  }
}

void ThreadPool::Shared::run_job(ItemFn run, void* argument, int64_t first, uint32_t count) {
  const uint32_t job = epoch.load(std::memory_order_relaxed) + 1;
  state.store(uint64_t{job} << 32 | kClosed, std::memory_order_release);
  items.store(count, std::memory_order_release);
  base.store(first, std::memory_order_release);
  fn.store(run, std::memory_order_release);
  context.store(argument, std::memory_order_release);
  done.store(0, std::memory_order_release);
  state.store(uint64_t{job} << 32, std::memory_order_release);
  epoch.store(job, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0)
    wake_sleepers(epoch, static_cast<int>(std::min<uint32_t>(count, static_cast<uint32_t>(threads)) - 1));
  work(job, 0);

  const auto finished = [&] { return done.load(std::memory_order_acquire) == count; };
  if (spin_until(spin_us, finished)) return;
  caller_sleeps.store(true, std::memory_order_seq_cst);
  for (uint32_t now; (now = done.load(std::memory_order_seq_cst)) != count;) sleep_while_equal(done, now);
  caller_sleeps.store(false, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(PoolOptions options) {
  watch_forks();
  fork_generation_ = fork_generation.load();
  const int cpus = usable_cpus();
  const int wanted = std::clamp(options.threads > 0 ? options.threads : cpus, 1, 4096);
  shared_ = std::make_unique<Shared>(wanted);
  // With more threads than CPUs, a spinning thread would keep a working thread from running.
  shared_->spin_us = wanted > cpus ? 0 : std::max(0, options.spin_us);

  // Workers block all signals, so that the host's threads handle them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    workers_.reserve(static_cast<size_t>(wanted - 1));
    for (int i = 1; i < wanted; ++i) {
      workers_.emplace_back([shared = shared_.get(), i] { shared->worker_main(i); });
      pthread_setname_np(workers_.back().native_handle(), "qcg-worker");
    }
  } catch (const std::exception&) {  // thread limit or no memory: work with fewer threads
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  threads_ = 1 + static_cast<int>(workers_.size());
  shared_->threads = threads_;
}

ThreadPool::~ThreadPool() {
  if (fork_generation_ != fork_generation.load()) {
    // A forked child has no workers, and joining them would wait forever. So their handles are leaked.
    new std::vector<std::thread>(std::move(workers_));
    (void)shared_.release();
    return;
  }
  shared_->stop.store(true, std::memory_order_release);
  shared_->epoch.fetch_add(1, std::memory_order_seq_cst);
  wake_sleepers(shared_->epoch, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_items(int64_t items, ItemFn fn, void* context) {
  if (items <= 0) return;
  if (items == 1 || threads_ == 1 || fork_generation_ != fork_generation.load(std::memory_order_relaxed)) {
    fn(context, 0, items, 0);
    return;
  }
  std::lock_guard lock(turn_);
  for (int64_t first = 0; first < items; first += kMaxJobItems)
    shared_->run_job(fn, context, first, static_cast<uint32_t>(std::min(kMaxJobItems, items - first)));
}

}  // namespace qcg
