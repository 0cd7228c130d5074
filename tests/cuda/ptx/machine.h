// Machine: what a translated kernel asks of the executor, and where a thread is.
//
// Why here: a kernel is compiled apart (translate.h) and meets the executor only through this class, so that the shared
// object needs no symbol of the test program. Everything that sees more than one thread, checks an access or takes
// effect later is a function of Machine; arithmetic on registers is in the opcode headers.
//
//   machine->line = 57;                                 // each instruction says where it stands in the PTX text
//   machine->load(Space::shared, address, &word, 4);
#pragma once

#include <cstdint>

namespace qcg::ptx {

enum class Space : uint8_t { generic, global, shared, local, param, constant };

// Element types of matrix products.
enum class Element : uint8_t { f32, f16, bf16, tf32, e4m3, e5m2, s32, s8, u8, s4, u4, b1 };

constexpr int element_bits(Element e) {
  switch (e) {
    case Element::f32:
    case Element::tf32:
    case Element::s32: return 32;
    case Element::f16:
    case Element::bf16: return 16;
    case Element::e4m3:
    case Element::e5m2:
    case Element::s8:
    case Element::u8: return 8;
    case Element::s4:
    case Element::u4: return 4;
    case Element::b1: return 1;
  }
  return 0;
}

// Addresses a generic pointer can hold. Global buffers lie below, 64 GiB apart.
constexpr uint64_t kSharedWindow = 0x7e0000000000, kLocalWindow = 0x7d0000000000, kParamWindow = 0x7c0000000000;
constexpr int kBufferShift = 36;

struct MmaShape {
  int m, n, k;
  Element d, a, b;
  bool saturate;
};

struct Index {
  uint32_t x, y, z;
};

struct Position {
  Index tid;
  uint32_t linear, lane, warp;
};

// A warp-wide exchange: what each lane gives and gets. The last lane to come computes for all.
struct Lanes {
  uint32_t mask = 0;
  uint64_t in[32][3];
  uint64_t out[32][2];
};
using ComputeLanes = void (*)(Lanes& lanes, void* context);

// wgmma.mma_async: registers by address, because they are read and written as late as the wait.
struct WgmmaCall {
  int n;
  Element d, a, b;
  uint32_t** accumulators;
  uint32_t** a_registers;  // or null: a is in shared memory
  uint64_t a_descriptor, b_descriptor;
  bool accumulate;
  int scale_a, scale_b;
  bool transposed_a, transposed_b;
};

struct TensorCopy {
  uint64_t map;
  uint32_t shared;
  uint32_t barrier;
  int dimensions;
  int32_t at[5];
};

class Machine {
 public:
  // What the running thread knows about itself; set whenever another thread goes on.
  int line = 0;
  const Position* thread = nullptr;
  Index ntid{}, ctaid{}, nctaid{};
  uint32_t dynamic_shared = 0, total_shared = 0;
  int64_t branches_left = 0;  // backward branches before the kernel counts as endless
  const uint8_t* parameters = nullptr;

  // ---- memory
  virtual void load(Space, uint64_t address, void* to, uint32_t bytes) = 0;
  virtual void store(Space, uint64_t address, const void* from, uint32_t bytes) = 0;
  virtual void* atomic(Space, uint64_t address, uint32_t bytes) = 0;  // checked; the caller reads and writes in place

  // ---- a warp
  virtual void meet(const char* what, uint32_t mask, const uint64_t (&in)[3], uint64_t (&out)[2], ComputeLanes,
                    void* context) = 0;
  virtual uint32_t active_mask() = 0;
  virtual void mma(const MmaShape& shape, uint32_t* registers) = 0;
  virtual void ldmatrix(int count, bool transposed, uint32_t address, uint32_t* registers) = 0;
  virtual void stmatrix(int count, bool transposed, uint32_t address, const uint32_t* registers) = 0;

  // ---- a CTA
  virtual void barrier(uint32_t id, uint32_t threads, bool wait) = 0;                  // threads 0: all of the CTA
  virtual uint32_t barrier_reduce(uint32_t id, uint32_t threads, bool predicate) = 0;  // how many gave true
  virtual void cluster_barrier(bool arrive, bool wait) = 0;
  virtual void poll() = 0;  // let others go on: the thread waits for memory to change
  virtual void endless() = 0;
  virtual void trap() = 0;
  virtual void unsupported(const char* what) = 0;

  // ---- asynchronous copies
  virtual void copy_async(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t source_bytes) = 0;
  virtual void commit_copies() = 0;
  virtual void wait_copies(uint32_t pending) = 0;
  virtual void arrive_after_copies(uint32_t barrier, bool counted) = 0;
  virtual void copy_bulk(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t barrier) = 0;
  virtual void store_bulk(uint64_t global, uint32_t shared, uint32_t bytes) = 0;
  virtual void copy_tensor(const TensorCopy& copy) = 0;
  virtual void store_tensor(const TensorCopy& copy) = 0;
  virtual void commit_bulk() = 0;
  virtual void wait_bulk(uint32_t pending, bool read_only) = 0;
  virtual void fence_proxy() = 0;

  // ---- mbarrier objects
  virtual void mbarrier_init(uint64_t address, uint32_t count) = 0;
  virtual void mbarrier_invalidate(uint64_t address) = 0;
  virtual void mbarrier_expect(uint64_t address, uint32_t bytes) = 0;
  virtual uint64_t mbarrier_arrive(uint64_t address, uint32_t count, uint32_t bytes, bool drop) = 0;
  virtual bool mbarrier_wait(uint64_t address, bool parity, uint64_t phase, bool may_block) = 0;

  // ---- wgmma
  virtual void wgmma_fence() = 0;
  virtual void wgmma(const WgmmaCall& call) = 0;
  virtual void wgmma_commit() = 0;
  virtual void wgmma_wait(uint32_t pending) = 0;

 protected:
  ~Machine() = default;
};

}  // namespace qcg::ptx
