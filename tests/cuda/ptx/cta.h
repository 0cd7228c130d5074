// Cta: the Machine of one CTA. Threads as fibers, a warp's meetings, barriers, asynchronous copies, wgmma.
//
// Why here: the executor (executor.h) runs one CTA after another; all that threads share beside global memory is here.
// The parts are in files of their own: cta.cpp (memory, scheduling), cta_warp.cpp, cta_barriers.cpp, cta_copies.cpp,
// cta_wgmma.cpp.
//
// Two timings are legal for everything asynchronous, and a right kernel cannot tell them apart: `Timing::early` does
// it when it is asked for, `Timing::late` when it is waited for or when nobody else can go on.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/ptx/counters.h"
#include "tests/cuda/ptx/fibers.h"
#include "tests/cuda/ptx/machine.h"
#include "tests/cuda/ptx/memory.h"

namespace qcg::ptx {

enum class Timing { early, late };

// In place of a CUtensorMap: its 128 bytes as a kernel gets them.
struct TensorMap {
  uint64_t magic = kMagic;
  uint64_t address = 0;
  uint64_t stride_bytes[4] = {};  // of dimension 1, 2, …; elements of dimension 0 are adjacent
  uint32_t sizes[5] = {1, 1, 1, 1, 1};
  uint32_t box[5] = {1, 1, 1, 1, 1};
  uint16_t element_bytes = 0, dimensions = 0;
  uint32_t swizzle_bytes = 0;  // 0, 32, 64 or 128
  uint8_t reserved[32] = {};
  static constexpr uint64_t kMagic = 0x50414d524f534e54;
};
static_assert(sizeof(TensorMap) == 128);

// Where the 16-byte chunk at a shared address lies with a swizzle of 32, 64 or 128 bytes: address bits 4… XOR bits 7….
constexpr uint32_t swizzled(uint32_t address, uint32_t swizzle_bytes) {
  return swizzle_bytes ? address ^ ((address >> 7 & (swizzle_bytes / 16 - 1)) << 4) : address;
}

struct CtaOptions {
  Timing timing = Timing::early;
  Order order = Order::ascending;
  bool count = false;
  int64_t local_bytes = 0;
  std::vector<uint8_t> parameters;
  std::function<std::string(int line)> describe_line;  // "PTX line 57 (gemm.cu:12)"
};

class Cta final : public Machine {
 public:
  Cta(GlobalMemory& global, const CtaOptions& options, Counters& counters)
      : global_(global), options_(options), counters_(counters) {
    parameters = options_.parameters.data();
  }
  // Throws a Fault.
  void run(Index cta, Index grid, Index block, uint32_t shared_bytes, uint32_t dynamic, void (*thread)());

  void load(Space, uint64_t address, void* to, uint32_t bytes) override;
  void store(Space, uint64_t address, const void* from, uint32_t bytes) override;
  void* atomic(Space, uint64_t address, uint32_t bytes) override;

  void meet(const char* what, uint32_t mask, const uint64_t (&in)[3], uint64_t (&out)[2], ComputeLanes,
            void* context) override;
  uint32_t active_mask() override;
  void mma(const MmaShape& shape, uint32_t* registers) override;
  void ldmatrix(int count, bool transposed, uint32_t address, uint32_t* registers) override;
  void stmatrix(int count, bool transposed, uint32_t address, const uint32_t* registers) override;

  void barrier(uint32_t id, uint32_t threads, bool wait) override;
  uint32_t barrier_reduce(uint32_t id, uint32_t threads, bool predicate) override;
  void cluster_barrier(bool arrive, bool wait) override;
  void poll() override;
  void endless() override;
  void trap() override;
  void unsupported(const char* what) override;

  void copy_async(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t source_bytes) override;
  void commit_copies() override;
  void wait_copies(uint32_t pending) override;
  void arrive_after_copies(uint32_t barrier, bool counted) override;
  void copy_bulk(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t barrier) override;
  void store_bulk(uint64_t global, uint32_t shared, uint32_t bytes) override;
  void copy_tensor(const TensorCopy& copy) override;
  void store_tensor(const TensorCopy& copy) override;
  void commit_bulk() override;
  void wait_bulk(uint32_t pending, bool read_only) override;
  void fence_proxy() override;

  void mbarrier_init(uint64_t address, uint32_t count) override;
  void mbarrier_invalidate(uint64_t address) override;
  void mbarrier_expect(uint64_t address, uint32_t bytes) override;
  uint64_t mbarrier_arrive(uint64_t address, uint32_t count, uint32_t bytes, bool drop) override;
  bool mbarrier_wait(uint64_t address, bool parity, uint64_t phase, bool may_block) override;

  void wgmma_fence() override;
  void wgmma(const WgmmaCall& call) override;
  void wgmma_commit() override;
  void wgmma_wait(uint32_t pending) override;

 private:
  struct AsyncCopy {  // cp.async
    uint32_t shared, bytes, source_bytes;
    uint64_t global;
  };
  struct BulkStore {
    uint32_t ticket;
    std::function<void()> take, put;  // shared memory is read; global memory is written
    bool taken = false;
  };
  struct Thread {
    Position position{};
    const char* waits_for = nullptr;  // while blocked
    int line = 0;
    bool done = false;
    std::vector<AsyncCopy> open_copies;
    std::deque<std::vector<AsyncCopy>> copy_groups;
    std::vector<BulkStore> open_stores;
    std::deque<std::vector<BulkStore>> store_groups;
    std::vector<uint8_t> local, local_written;
  };
  struct Meeting {
    uint32_t mask = 0, arrived = 0;
    int line = 0;
    const char* what = nullptr;
    Lanes lanes;
    uint64_t (*out[32])[2];
    ComputeLanes compute = nullptr;
    void* context = nullptr;
  };
  struct Warp {
    Clock clock;
    Meeting meetings[4];
    uint32_t launched = ~0u, exited = 0;
  };
  struct Barrier {
    uint32_t arrived = 0, expected = 0, trues = 0, result = 0;
    Clock clock, released;
    std::vector<int> waiting;
  };
  struct Mbarrier {
    int slot = 0;
    uint32_t expected = 0, pending = 0;
    int64_t bytes = 0;
    uint64_t phase = 0;  // phases completed
    Clock clock, released;
    std::vector<int> waiting;
  };
  struct WgmmaGroup {  // of four warps
    std::vector<std::function<void()>> open;
    std::deque<std::vector<std::function<void()>>> committed;
    uint32_t tickets = 1, completed = 0;  // the ticket of the group that is open; of the last that was waited for
    bool fenced = false;
    uint64_t arrived = 0;
    int line = 0;
    std::vector<int> waiting;
    uint32_t** accumulators[128];
    uint32_t** a_registers[128];
  };

  // cta.cpp
  [[noreturn]] void fail(FaultKind kind, std::string message);
  Thread& self() { return threads_[static_cast<size_t>(fibers_.current())]; }
  Warp& my_warp() { return warps_[thread->warp]; }
  Clock& my_clock() { return my_warp().clock; }
  int my_slot() const { return static_cast<int>(thread->warp); }
  uint32_t my_count() { return my_clock().at[thread->warp]; }
  void release_into(Clock& clock);  // others that join it know what this warp did until now
  void block(const char* what);
  void thread_main(int index, void (*thread)());
  void leave(Thread& t);
  void when_idle();
  [[noreturn]] void deadlock();
  Space resolve(Space space, uint64_t& address);
  uint32_t shared_address(uint64_t address) const;
  uint8_t* local(uint64_t address, uint32_t bytes, bool write);
  void check_alignment(uint64_t address, uint32_t bytes, const char* what);
  Reader as_warp() { return {my_slot(), my_count(), my_clock()}; }
  void note(AccessLog::Kind kind, uint64_t address, uint32_t bytes);

  // cta_warp.cpp
  struct MatrixCall;
  void complete(Warp& warp, Meeting& meeting);
  void multiply(const MmaShape& shape, Lanes& lanes);

  // cta_barriers.cpp
  void settle(Barrier& barrier);
  uint32_t expected_of(uint32_t threads);
  Barrier& arrive_at(uint32_t id, uint32_t threads, bool predicate);
  Mbarrier& mbarrier_at(uint64_t address);
  void settle(Mbarrier& barrier);
  void arrive_at(Mbarrier& barrier, uint32_t count, const Clock& clock);
  void thread_left();  // who waits for all threads waits for one less

  // cta_copies.cpp
  void perform(const AsyncCopy& copy);
  void start_bulk(uint32_t shared, uint32_t bytes, uint32_t barrier, std::function<void()> copy);
  void start_store(std::vector<std::pair<uint32_t, uint32_t>> pieces, BulkStore store);
  TensorMap tensor_map(uint64_t address, const TensorCopy& copy);
  void for_box(const TensorMap& map, const TensorCopy& copy,
               const std::function<void(uint32_t shared, uint64_t global, bool inside)>& visit) const;
  void finish_stores(Thread& t, size_t pending, bool read_only);
  bool perform_pending();  // late: one thing that is under way; whether there was one

  // cta_wgmma.cpp
  WgmmaGroup& my_group() { return groups_[thread->warp / 4]; }
  void gather(const char* what, const std::function<void(WgmmaGroup&)>& last);
  std::vector<float> shared_operand(uint64_t descriptor, int rows, Element element, bool transposed, const Clock& clock,
                                    uint32_t ticket, bool check);

  GlobalMemory& global_;
  const CtaOptions& options_;
  Counters& counters_;
  AccessLog log_;
  Fibers fibers_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Barrier> barriers_;
  std::map<uint32_t, Mbarrier> mbarriers_;
  std::map<uint32_t, Clock> atomics_;  // by shared word: what those who changed it knew
  std::vector<WgmmaGroup> groups_;
  std::deque<std::function<void()>> pending_;  // late bulk copies and arrivals
  std::vector<int> sleepers_;                  // in try_wait: woken when nobody else can go on
  uint32_t store_tickets_ = 0;
  uint64_t progress_ = 0, progress_at_idle_ = ~0ull, polls_without_progress_ = 0;
};

}  // namespace qcg::ptx
