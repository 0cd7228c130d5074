// What sm_90a adds: barriers that asynchronous copies arrive at, bulk copies, products of four warps whose operands lie in shared memory.
//
// Why here: device.cuh is for sm_80 and later. Only wgmma.cu.j2 includes this file; the product itself is printed there,
// because its registers depend on the tile. Source: PTX ISA 8.0, sections 9.7.8.24, 9.7.12.15 and 9.7.14.
//
//   Barrier full;  barrier_init(&full, 128);                    // complete after 128 arrivals
//   cp_async_16(to, from, 16);  barrier_arrive_after_copies(&full);           barrier_wait(&full, 0);
#pragma once

using Barrier = unsigned long long;

QCG_DEVICE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

QCG_DEVICE void barrier_init(Barrier* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
// Copies of the block may use barriers that this thread made.
QCG_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// The phase completes with so many bytes more; an arrival is still missing.
QCG_DEVICE void barrier_expect(Barrier* b, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
QCG_DEVICE void barrier_arrive(Barrier* b) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(b)) : "memory");
}
// Arrives when all cp.async of this thread so far are there; the thread goes on.
QCG_DEVICE void barrier_arrive_after_copies(Barrier* b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}
// Until a phase of this parity is complete; the one before the first has parity 1.
QCG_DEVICE void barrier_wait(Barrier* b, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
          shared_address(b)),
      "r"(parity)
      : "memory");
}

// Both addresses and the bytes are multiples of 16.
QCG_DEVICE void copy_bulk(void* shared, const void* global, int bytes, Barrier* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(b))
               : "memory");
}

// The line of this address will be read; it need not be mapped.
QCG_DEVICE void prefetch_l2(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }

// What threads stored in shared memory may be read by wgmma from here on.
QCG_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Some warps of a block meet; barrier 0 is that of __syncthreads.
template <int ID, int THREADS>
QCG_DEVICE void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

// Registers of every thread of this group of four warps from here on.
template <int REGISTERS>
QCG_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
QCG_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Rows of 128 bytes whose chunks of 16 lie at c ^ (row % 8), eight rows after eight: the lower half of wgmma's descriptor,
// and the upper one. Adding 1 moves it by 16 bytes.
QCG_DEVICE unsigned rows_descriptor(const void* rows) { return (shared_address(rows) & 0x3ffff) >> 4 | 1u << 16; }
constexpr unsigned kRowsDescriptor = 1024 >> 4 | 1u << 30;  // from eight rows to eight rows; a swizzle of 128 bytes

// Registers of this thread that products read or add to may be used by them.
QCG_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
QCG_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most PENDING of the newest groups are under way.
template <int PENDING>
QCG_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
