#include "tests/cuda/ptx/cta.h"

#include <fmt/format.h>

#include <cstring>

namespace qcg::ptx {

void Cta::run(Index cta, Index grid, Index block, uint32_t shared_bytes, uint32_t dynamic, void (*body)()) {
  const uint32_t count = block.x * block.y * block.z;
  if (count == 0 || count > kMaxWarps * 32)
    throw Fault{FaultKind::unsupported,
                fmt::format("a CTA of {} threads; the executor has at most {}", count, kMaxWarps * 32)};
  ntid = block, ctaid = cta, nctaid = grid;
  dynamic_shared = dynamic, total_shared = shared_bytes;
  shared_.reset(shared_bytes);
  threads_.assign(count, {});
  warps_.assign((count + 31) / 32, {});
  groups_.assign((warps_.size() + 3) / 4, {});
  barriers_.assign(17, {});  // the last one is the cluster's
  mbarriers_.clear(), atomics_.clear(), pending_.clear(), sleepers_.clear();
  store_tickets_ = 0;
  progress_ = 0, progress_at_idle_ = ~0ull, polls_without_progress_ = 0;
  for (uint32_t t = 0; t < count; ++t)
    threads_[t].position = {{t % block.x, t / block.x % block.y, t / (block.x * block.y)}, t, t % 32, t / 32};
  for (size_t w = 0; w < warps_.size(); ++w) {
    warps_[w].clock.at[w] = 1;
    const size_t lanes = std::min<size_t>(32, count - w * 32);
    if (lanes < 32) warps_[w].launched = (1u << lanes) - 1;
    warps_[w].exited = ~warps_[w].launched;
  }
  branches_left = int64_t{1} << 32;
  fibers_.on_switch = [this](int t) { thread = &threads_[static_cast<size_t>(t)].position; };
  fibers_.run(
      static_cast<int>(count), options_.order, [this, body](int t) { thread_main(t, body); }, [this] { when_idle(); });
  if (options_.count) log_.flush(counters_);
}

void Cta::thread_main(int index, void (*body)()) {
  try {
    body();
    leave(threads_[static_cast<size_t>(index)]);
  } catch (const Fault& fault) {
    if (fault.where.empty()) fail(fault.kind, fault.message);  // it was found where no thread is known
    throw;
  }
}

void Cta::leave(Thread& t) {
  wait_copies(0);
  commit_bulk();
  finish_stores(t, 0, false);
  t.done = true;
  ++progress_;
  Warp& warp = my_warp();
  warp.exited |= 1u << thread->lane;
  for (Meeting& m : warp.meetings)
    if (m.mask && m.arrived == (m.mask & ~warp.exited)) complete(warp, m);
  thread_left();
}

void Cta::fail(FaultKind kind, std::string message) {
  throw Fault{kind, std::move(message), line,
              fmt::format("{}, CTA ({}, {}, {}), thread ({}, {}, {})", options_.describe_line(line), ctaid.x, ctaid.y,
                          ctaid.z, thread->tid.x, thread->tid.y, thread->tid.z)};
}

void Cta::release_into(Clock& clock) {
  clock.join(my_clock());
  ++my_clock().at[thread->warp];
}

// `line` is every thread's while it runs.
void Cta::block(const char* what) {
  Thread& t = self();
  t.waits_for = what;
  t.line = line;
  fibers_.block();
  line = t.line;
  t.waits_for = nullptr;
}

void Cta::poll() {
  if (++polls_without_progress_ > 20000 * threads_.size()) deadlock();
  if (polls_without_progress_ % (4 * threads_.size()) == 0) perform_pending();
  Thread& t = self();
  t.waits_for = "polls memory";
  t.line = line;
  fibers_.yield();
  line = t.line;
  t.waits_for = nullptr;
}

void Cta::when_idle() {
  if (perform_pending()) return;
  // try_wait may return without success: a thread that only looked can go on with something else.
  if (progress_at_idle_ == progress_ || sleepers_.empty()) deadlock();
  progress_at_idle_ = progress_;
  for (const int t : sleepers_) fibers_.ready(t);
  sleepers_.clear();
}

void Cta::deadlock() {
  std::string text;
  std::string last;
  for (const Thread& t : threads_) {
    if (t.done || !t.waits_for) continue;
    const std::string one =
        fmt::format("warp {} waits at {} ({})", t.position.warp, options_.describe_line(t.line), t.waits_for);
    if (one != last) text += (text.empty() ? "" : "; ") + one;
    last = one;
  }
  for (const auto& [address, b] : mbarriers_)
    text += fmt::format("; the mbarrier at {} misses {} arrivals and {} bytes of phase {}", address, b.pending, b.bytes,
                        b.phase);
  throw Fault{FaultKind::deadlock, text, threads_[0].line,
              fmt::format("{}, CTA ({}, {}, {})", options_.describe_line(threads_[0].line), ctaid.x, ctaid.y, ctaid.z)};
}

void Cta::endless() { fail(FaultKind::deadlock, "the CTA went back 2^32 times: an endless loop"); }
void Cta::trap() { fail(FaultKind::protocol, "the kernel executed trap"); }
void Cta::unsupported(const char* what) { fail(FaultKind::unsupported, what); }

Space Cta::resolve(Space space, uint64_t& address) {
  constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
  const auto within = [&](uint64_t window) { return address >= window && address < window + kWindowBytes; };
  if (space == Space::param && within(kParamWindow)) address -= kParamWindow;
  if (space != Space::generic) return space == Space::constant ? Space::global : space;
  if (within(kSharedWindow)) return address -= kSharedWindow, Space::shared;
  if (within(kLocalWindow)) return address -= kLocalWindow, Space::local;
  if (within(kParamWindow)) return address -= kParamWindow, Space::param;
  return Space::global;
}

uint32_t Cta::shared_address(uint64_t address) const {
  return static_cast<uint32_t>(address >= kSharedWindow ? address - kSharedWindow : address);
}

void Cta::check_alignment(uint64_t address, uint32_t bytes, const char* what) {
  if (address % bytes) fail(FaultKind::misaligned, fmt::format("{} of {} bytes at {:#x}", what, bytes, address));
}

uint8_t* Cta::local(uint64_t address, uint32_t bytes, bool write) {
  Thread& t = self();
  const size_t size = static_cast<size_t>(options_.local_bytes);
  if (t.local.empty()) t.local.assign(size, 0xff), t.local_written.assign(size, 0);
  if (address + bytes > size)
    fail(FaultKind::out_of_bounds, fmt::format("{} bytes at {} of local memory, which has {}", bytes, address, size));
  for (uint32_t i = 0; i < bytes; ++i) {
    if (write) t.local_written[address + i] = 1;
    else if (!t.local_written[address + i])
      fail(FaultKind::uninitialized, fmt::format("local {} is read before it is written", address + i));
  }
  return t.local.data() + address;
}

void Cta::note(AccessLog::Kind kind, uint64_t address, uint32_t bytes) {
  if (options_.count) log_.note(kind, line, thread->warp, thread->lane, address, bytes);
}

void Cta::load(Space space, uint64_t address, void* to, uint32_t bytes) {
  space = resolve(space, address);
  check_alignment(address, bytes, "a load");
  if (space == Space::shared) {
    shared_.read(as_warp(), static_cast<uint32_t>(address), bytes);
    std::memcpy(to, shared_.at(static_cast<uint32_t>(address)), bytes);
    note(AccessLog::Kind::shared, address, bytes);
  } else if (space == Space::local) {
    std::memcpy(to, local(address, bytes, false), bytes);
  } else if (space == Space::param) {
    if (address + bytes > options_.parameters.size())
      fail(FaultKind::out_of_bounds,
           fmt::format("a parameter at {}, where {} bytes were given", address, options_.parameters.size()));
    std::memcpy(to, parameters + address, bytes);
  } else {
    std::memcpy(to, global_.read(address, bytes), bytes);
    note(AccessLog::Kind::global, address, bytes);
  }
}

void Cta::store(Space space, uint64_t address, const void* from, uint32_t bytes) {
  space = resolve(space, address);
  check_alignment(address, bytes, "a store");
  polls_without_progress_ = 0;
  ++progress_;
  if (space == Space::shared) {
    const uint32_t at = static_cast<uint32_t>(address);
    shared_.check_write(as_warp(), at, bytes);
    std::memcpy(shared_.at(at), from, bytes);
    shared_.mark_written(my_slot(), my_count(), false, at, bytes);
    note(AccessLog::Kind::shared, address, bytes);
  } else if (space == Space::local) {
    std::memcpy(local(address, bytes, true), from, bytes);
  } else if (space == Space::param) {
    fail(FaultKind::read_only, "a store to a parameter");
  } else {
    std::memcpy(global_.write(address, bytes), from, bytes);
    note(AccessLog::Kind::global, address, bytes);
  }
}

// Whoever changes a shared word atomically learns what those before knew: stronger than relaxed atomics, so that a
// lock in shared memory is no race; two plain accesses around it that only a relaxed atomic orders are not found.
void* Cta::atomic(Space space, uint64_t address, uint32_t bytes) {
  poll();
  space = resolve(space, address);
  check_alignment(address, bytes, "an atomic operation");
  if (space == Space::local || space == Space::param)
    fail(FaultKind::protocol, "an atomic operation on local memory or a parameter");
  if (space == Space::global) {
    global_.read(address, bytes);
    note(AccessLog::Kind::global, address, bytes);
    return global_.write(address, bytes);
  }
  const uint32_t at = static_cast<uint32_t>(address);
  Clock& known = atomics_[at];
  my_clock().join(known);
  shared_.read(as_warp(), at, bytes);
  shared_.check_write(as_warp(), at, bytes);
  shared_.mark_written(my_slot(), my_count(), false, at, bytes);
  release_into(known);
  note(AccessLog::Kind::shared, address, bytes);
  return shared_.at(at);
}

}  // namespace qcg::ptx
