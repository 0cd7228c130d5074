// Cta: cp.async, bulk copies, tensor copies, and stores of both kinds.
#include <fmt/format.h>

#include <cstring>

#include "tests/cuda/ptx/cta.h"

namespace qcg::ptx {

// ---- cp.async: groups of a thread
void Cta::copy_async(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t source_bytes) {
  if (bytes != 4 && bytes != 8 && bytes != 16) fail(FaultKind::protocol, fmt::format("cp.async of {} bytes", bytes));
  if (source_bytes > bytes) fail(FaultKind::protocol, fmt::format("cp.async of {} bytes from {}", bytes, source_bytes));
  check_alignment(shared, bytes, "cp.async to shared memory");
  check_alignment(global, bytes, "cp.async from global memory");
  if (source_bytes) {
    global_.read(global, source_bytes);
    note(AccessLog::Kind::global, global, source_bytes);
  }
  note(AccessLog::Kind::shared, shared, bytes);
  shared_.check_write(as_warp(), shared, bytes);
  shared_.set_in_flight(shared, bytes, true);
  const AsyncCopy copy{shared, bytes, source_bytes, global};
  if (options_.timing == Timing::early) perform(copy);
  self().open_copies.push_back(copy);
}

void Cta::perform(const AsyncCopy& copy) {
  std::memset(shared_.at(copy.shared), 0, copy.bytes);
  if (!copy.source_bytes) return;
  Buffer& from = *global_.find(copy.global);
  std::memcpy(shared_.at(copy.shared), from.bytes.data() + (copy.global - from.address), copy.source_bytes);
}

void Cta::commit_copies() {
  Thread& t = self();
  t.copy_groups.push_back(std::move(t.open_copies));
  t.open_copies.clear();
}

void Cta::wait_copies(uint32_t pending) {
  Thread& t = self();
  for (; t.copy_groups.size() > pending; t.copy_groups.pop_front())
    for (const AsyncCopy& copy : t.copy_groups.front()) {
      if (options_.timing == Timing::late) perform(copy);
      shared_.set_in_flight(copy.shared, copy.bytes, false);
      shared_.mark_written(my_slot(), my_count(), false, copy.shared, copy.bytes);
    }
}

// The barrier gets an arrival when all copies of this thread until now are done; `counted`: one that was not expected.
void Cta::arrive_after_copies(uint32_t barrier, bool counted) {
  Mbarrier& b = mbarrier_at(barrier);
  if (counted) ++b.pending;
  std::vector<AsyncCopy> copies;
  Thread& t = self();
  for (auto& group : t.copy_groups) copies.insert(copies.end(), group.begin(), group.end());
  copies.insert(copies.end(), t.open_copies.begin(), t.open_copies.end());
  t.copy_groups.clear(), t.open_copies.clear();
  const int slot = my_slot();
  const uint32_t count = my_count();
  Clock clock;
  release_into(clock);
  auto finish = [this, &b, copies = std::move(copies), slot, count, clock] {
    for (const AsyncCopy& copy : copies) {
      if (options_.timing == Timing::late) perform(copy);
      shared_.set_in_flight(copy.shared, copy.bytes, false);
      shared_.mark_written(slot, count, false, copy.shared, copy.bytes);
    }
    arrive_at(b, 1, clock);
  };
  if (options_.timing == Timing::early) finish();
  else pending_.push_back(std::move(finish));
}

bool Cta::perform_pending() {
  if (pending_.empty()) return false;
  const auto next = std::move(pending_.front());
  pending_.pop_front();
  next();
  return true;
}

// ---- bulk and tensor copies to shared memory: an mbarrier counts their bytes
void Cta::start_bulk(uint32_t shared, uint32_t bytes, uint32_t barrier, std::function<void()> copy) {
  Mbarrier& b = mbarrier_at(barrier);
  shared_.read(as_warp(), barrier, 8);
  shared_.check_write({b.slot, 0, my_clock(), true}, shared, bytes);
  shared_.mark_written(b.slot, static_cast<uint32_t>(b.phase) + 1, true, shared, bytes);
  const Clock before = my_clock();
  auto finish = [this, &b, bytes, before, copy = std::move(copy)] {
    copy();
    b.bytes -= bytes;
    b.clock.join(before);
    settle(b);
  };
  ++progress_;
  if (options_.timing == Timing::early) finish();
  else pending_.push_back(std::move(finish));
}

void Cta::copy_bulk(uint32_t shared, uint64_t global, uint32_t bytes, uint32_t barrier) {
  check_alignment(shared, 16, "a bulk copy to shared memory");
  check_alignment(global, 16, "a bulk copy from global memory");
  if (bytes == 0 || bytes % 16) fail(FaultKind::protocol, fmt::format("a bulk copy of {} bytes", bytes));
  const uint8_t* from = global_.read(global, bytes);
  start_bulk(shared, bytes, barrier, [this, shared, from, bytes] { std::memcpy(shared_.at(shared), from, bytes); });
}

TensorMap Cta::tensor_map(uint64_t address, const TensorCopy& copy) {
  TensorMap map;
  if (address % 64) fail(FaultKind::misaligned, fmt::format("a tensor map at {:#x}", address));
  if (address >= kParamWindow && address < kParamWindow + options_.parameters.size())
    std::memcpy(&map, parameters + (address - kParamWindow), sizeof map);
  else std::memcpy(&map, global_.read(address, sizeof map), sizeof map);
  if (map.magic != TensorMap::kMagic) fail(FaultKind::protocol, fmt::format("no tensor map at {:#x}", address));
  if (map.dimensions != copy.dimensions)
    fail(FaultKind::protocol, fmt::format("a copy of {} dimensions with a map of {}", copy.dimensions, map.dimensions));
  check_alignment(copy.shared, 128, "a tensor copy");
  const uint32_t row = map.box[0] * map.element_bytes;
  if (row % 16) fail(FaultKind::protocol, fmt::format("rows of {} bytes in the box of a tensor map", row));
  if (map.swizzle_bytes && row > map.swizzle_bytes)
    fail(FaultKind::protocol, fmt::format("rows of {} bytes with a swizzle of {}", row, map.swizzle_bytes));
  return map;
}

// Every element of the box: where it lies in shared and global memory, and whether it is in the tensor.
void Cta::for_box(const TensorMap& map, const TensorCopy& copy,
                  const std::function<void(uint32_t, uint64_t, bool)>& visit) const {
  const uint32_t row = map.box[0] * map.element_bytes;
  for (uint32_t y = 0; y < map.box[1]; ++y)
    for (uint32_t x = 0; x < map.box[0]; ++x) {
      const int64_t gx = int64_t{copy.at[0]} + x, gy = map.dimensions > 1 ? int64_t{copy.at[1]} + y : 0;
      const bool inside = gx >= 0 && gy >= 0 && gx < map.sizes[0] && gy < map.sizes[1];
      const uint64_t global =
          map.address + static_cast<uint64_t>(gy) * map.stride_bytes[0] + static_cast<uint64_t>(gx) * map.element_bytes;
      visit(swizzled(copy.shared + y * row + x * map.element_bytes, map.swizzle_bytes), global, inside);
    }
}

void Cta::copy_tensor(const TensorCopy& copy) {
  const TensorMap map = tensor_map(copy.map, copy);
  for_box(map, copy, [&](uint32_t, uint64_t global, bool inside) {
    if (inside) global_.read(global, map.element_bytes);
  });
  const uint32_t bytes = map.box[0] * map.box[1] * map.element_bytes;
  start_bulk(copy.shared, bytes, copy.barrier, [this, map, copy] {
    for_box(map, copy, [&](uint32_t shared, uint64_t global, bool inside) {
      std::memset(shared_.at(shared), 0, map.element_bytes);
      if (!inside) return;
      const Buffer& from = *global_.find(global);
      std::memcpy(shared_.at(shared), from.bytes.data() + (global - from.address), map.element_bytes);
    });
  });
}

// ---- bulk and tensor stores: shared memory is read until wait_group.read, global memory is written until wait_group
void Cta::start_store(std::vector<std::pair<uint32_t, uint32_t>> pieces, BulkStore store) {
  store.ticket = ++store_tickets_;
  for (const auto& [at, bytes] : pieces) shared_.read({kStoreSlot, store.ticket, my_clock(), true}, at, bytes);
  if (options_.timing == Timing::early) store.take(), store.put(), store.taken = true;
  self().open_stores.push_back(std::move(store));
}

void Cta::store_bulk(uint64_t global, uint32_t shared, uint32_t bytes) {
  check_alignment(shared, 16, "a bulk store from shared memory");
  check_alignment(global, 16, "a bulk store to global memory");
  if (bytes == 0 || bytes % 16) fail(FaultKind::protocol, fmt::format("a bulk store of {} bytes", bytes));
  uint8_t* to = global_.write(global, bytes);
  auto data = std::make_shared<std::vector<uint8_t>>();
  start_store({{shared, bytes}},
              {0, [this, data, shared, bytes] { data->assign(shared_.at(shared), shared_.at(shared) + bytes); },
               [data, to] { std::memcpy(to, data->data(), data->size()); }});
}

void Cta::store_tensor(const TensorCopy& copy) {
  const TensorMap map = tensor_map(copy.map, copy);
  std::vector<std::pair<uint32_t, uint32_t>> pieces;
  for_box(map, copy, [&](uint32_t shared, uint64_t global, bool inside) {
    if (inside) pieces.emplace_back(shared, map.element_bytes), global_.write(global, map.element_bytes);
  });
  auto data = std::make_shared<std::vector<uint8_t>>();
  auto take = [this, map, copy, data] {
    for_box(map, copy, [&](uint32_t shared, uint64_t, bool) {
      data->insert(data->end(), shared_.at(shared), shared_.at(shared) + map.element_bytes);
    });
  };
  auto put = [this, map, copy, data] {
    size_t at = 0;
    for_box(map, copy, [&](uint32_t, uint64_t global, bool inside) {
      if (inside) {
        Buffer& to = *global_.find(global);
        std::memcpy(to.bytes.data() + (global - to.address), data->data() + at, map.element_bytes);
      }
      at += map.element_bytes;
    });
  };
  start_store(std::move(pieces), {0, take, put});
}

void Cta::commit_bulk() {
  Thread& t = self();
  t.store_groups.push_back(std::move(t.open_stores));
  t.open_stores.clear();
}

void Cta::finish_stores(Thread& t, size_t pending, bool read_only) {
  const size_t done = t.store_groups.size() > pending ? t.store_groups.size() - pending : 0;
  for (size_t g = 0; g < done; ++g)
    for (BulkStore& store : t.store_groups[g]) {
      if (!store.taken) store.take();
      if (!store.taken && !read_only) store.put();
      if (!store.taken && read_only) store.take = [] {};  // the bytes are held; they land with wait_group
      store.taken |= !read_only;
      uint32_t& known = my_clock().at[kStoreSlot];
      known = std::max(known, store.ticket);
    }
  if (!read_only) t.store_groups.erase(t.store_groups.begin(), t.store_groups.begin() + static_cast<int64_t>(done));
}

void Cta::wait_bulk(uint32_t pending, bool read_only) { finish_stores(self(), pending, read_only); }

// What this warp knows to be written in shared memory may now be read by asynchronous hardware.
void Cta::fence_proxy() {
  Clock& clock = my_clock();
  for (size_t w = 0; w < kMaxWarps; ++w) clock.fenced[w] = clock.at[w];
  clock.fenced[thread->warp] = clock.at[thread->warp];
  ++clock.at[thread->warp];  // stores from here on come after the fence
}

}  // namespace qcg::ptx
