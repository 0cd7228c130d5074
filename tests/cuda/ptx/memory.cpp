#include "tests/cuda/ptx/memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace qcg::ptx {

Buffer& GlobalMemory::add(std::string name, std::vector<uint8_t> bytes, Access access, uint64_t shift) {
  Buffer b;
  b.name = std::move(name);
  b.access = access;
  b.address = ((buffers_.size() + 1) << kBufferShift) + shift;
  b.bytes = std::move(bytes);
  b.written.assign(b.bytes.size(), access != Access::output);
  buffers_.push_back(std::move(b));
  return buffers_.back();
}

Buffer* GlobalMemory::find(uint64_t address) {
  const uint64_t index = (address >> kBufferShift) - 1;
  return index < buffers_.size() ? &buffers_[index] : nullptr;
}

Buffer& GlobalMemory::inside(uint64_t address, uint64_t bytes, const char* what) {
  // A little before a buffer is within the 64 GiB of the one before it.
  Buffer* b = find(address);
  if (!b) throw Fault{FaultKind::out_of_bounds, fmt::format("{} at {:#x} in no buffer", what, address)};
  if (address < b->address || address + bytes > b->address + b->bytes.size())
    throw Fault{FaultKind::out_of_bounds,
                fmt::format("{} of {} bytes at {} in '{}', which has {} bytes", what, bytes,
                            static_cast<int64_t>(address - b->address), b->name, b->bytes.size())};
  return *b;
}

uint8_t* GlobalMemory::read(uint64_t address, uint64_t bytes) {
  Buffer& b = inside(address, bytes, "a read");
  const uint64_t at = address - b.address;
  if (b.access == Access::output &&
      std::any_of(b.written.begin() + static_cast<int64_t>(at), b.written.begin() + static_cast<int64_t>(at + bytes),
                  [](uint8_t w) { return !w; }))
    throw Fault{FaultKind::uninitialized, fmt::format("a read at byte {} of '{}', which nobody wrote", at, b.name)};
  b.bytes_read += bytes;
  return b.bytes.data() + at;
}

uint8_t* GlobalMemory::write(uint64_t address, uint64_t bytes) {
  Buffer& b = inside(address, bytes, "a write");
  if (b.access == Access::input) throw Fault{FaultKind::read_only, fmt::format("a write to the input '{}'", b.name)};
  const uint64_t at = address - b.address;
  std::fill_n(b.written.begin() + static_cast<int64_t>(at), bytes, uint8_t{1});
  b.bytes_written += bytes;
  return b.bytes.data() + at;
}

void Clock::join(const Clock& other) {
  for (size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  for (size_t i = 0; i < fenced.size(); ++i) fenced[i] = std::max(fenced[i], other.fenced[i]);
}

void Clock::meet(const Clock& other) {
  for (size_t i = 0; i < at.size(); ++i) at[i] = std::min(at[i], other.at[i]);
  for (size_t i = 0; i < fenced.size(); ++i) fenced[i] = std::min(fenced[i], other.fenced[i]);
}

std::string slot_name(int slot) {
  if (slot < kWgmmaSlot) return fmt::format("warp {}", slot);
  if (slot < kStoreSlot)
    return fmt::format("wgmma of warps {} to {}", (slot - kWgmmaSlot) * 4, (slot - kWgmmaSlot) * 4 + 3);
  return slot == kStoreSlot ? "a bulk store" : "a bulk copy";
}

void SharedMemory::reset(uint32_t bytes) {
  bytes_.assign(bytes, 0xff);
  words_.assign((bytes + 3) / 4, {});
  reads_.assign(words_.size() * kReaderSlots, 0);
}

void SharedMemory::check_range(uint32_t address, uint32_t bytes, const char* what) const {
  if (uint64_t{address} + bytes > bytes_.size())
    throw Fault{FaultKind::out_of_bounds, fmt::format("{} of {} bytes at {} of shared memory, which has {}", what,
                                                      bytes, address, bytes_.size())};
}

namespace {
// The bytes of word `w` that an access covers, as a mask.
uint8_t mask_of(uint32_t w, uint32_t address, uint32_t bytes) {
  const uint32_t from = std::max(address, w * 4) - w * 4, to = std::min(address + bytes, w * 4 + 4) - w * 4;
  return static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
}
}  // namespace

void SharedMemory::read(const Reader& reader, uint32_t address, uint32_t bytes) {
  check_range(address, bytes, "a read");
  for (uint32_t w = address / 4; w <= (address + bytes - 1) / 4; ++w) {
    Word& word = words_[w];
    const uint8_t mask = mask_of(w, address, bytes);
    if (word.in_flight)
      throw Fault{FaultKind::race, fmt::format("{} reads shared {} before the cp.async to it was waited for",
                                               slot_name(reader.slot), w * 4)};
    const bool unordered = word.write_slot != reader.slot && word.write_count > reader.clock.at[word.write_slot];
    if (unordered && (word.write_mask & mask))
      throw Fault{FaultKind::race, fmt::format("{} reads shared {} that {} wrote, and nothing orders the two",
                                               slot_name(reader.slot), w * 4, slot_name(word.write_slot))};
    if ((word.ever_written & mask) != mask)
      throw Fault{FaultKind::uninitialized, fmt::format("shared {} is read before it is written", w * 4)};
    if (reader.asynchronous && !word.asynchronous && word.write_count > reader.clock.fenced[word.write_slot])
      throw Fault{FaultKind::proxy, fmt::format("{} reads shared {} that {} stored without fence.proxy.async after it",
                                                slot_name(reader.slot), w * 4, slot_name(word.write_slot))};
    reads_[w * kReaderSlots + static_cast<uint32_t>(reader.slot)] = reader.count;
    word.ever_read |= mask;
  }
}

void SharedMemory::check_write(const Reader& writer, uint32_t address, uint32_t bytes) {
  check_range(address, bytes, "a write");
  for (uint32_t w = address / 4; w <= (address + bytes - 1) / 4; ++w) {
    const Word& word = words_[w];
    const uint8_t mask = mask_of(w, address, bytes);
    if (word.in_flight)
      throw Fault{FaultKind::race, fmt::format("{} writes shared {} before the cp.async to it was waited for",
                                               slot_name(writer.slot), w * 4)};
    const bool same = word.write_slot == writer.slot && !writer.asynchronous;
    if (!same && (word.write_mask & mask) && word.write_count > writer.clock.at[word.write_slot])
      throw Fault{FaultKind::race, fmt::format("{} overwrites shared {} that {} wrote, and nothing orders the two",
                                               slot_name(writer.slot), w * 4, slot_name(word.write_slot))};
    if (!(word.ever_read & mask)) continue;
    for (int r = 0; r < kReaderSlots; ++r)
      if (r != writer.slot &&
          reads_[w * kReaderSlots + static_cast<uint32_t>(r)] > writer.clock.at[static_cast<size_t>(r)])
        throw Fault{FaultKind::race, fmt::format("{} overwrites shared {} that {} may still be reading",
                                                 slot_name(writer.slot), w * 4, slot_name(r))};
  }
}

void SharedMemory::mark_written(int slot, uint32_t count, bool asynchronous, uint32_t address, uint32_t bytes) {
  for (uint32_t w = address / 4; w <= (address + bytes - 1) / 4; ++w) {
    Word& word = words_[w];
    word.write_slot = static_cast<uint8_t>(slot);
    word.write_count = count;
    word.write_mask = mask_of(w, address, bytes);
    word.ever_written |= word.write_mask;
    word.asynchronous = asynchronous;
  }
}

void SharedMemory::set_in_flight(uint32_t address, uint32_t bytes, bool on) {
  for (uint32_t w = address / 4; w <= (address + bytes - 1) / 4; ++w) words_[w].in_flight = on;
}

}  // namespace qcg::ptx
