// Memory as a kernel sees it: buffers with bounds, and shared memory with the history of every word.
//
// Why here: on a device a stray access or a missing barrier goes unnoticed most of the time; here each access is
// checked against what the test gave and against the clocks of the warps. Clocks are vector clocks (Mattern;
// FastTrack's epochs for the last write): warp a's access happened before b's if b's clock has reached a's count at
// that access.
//
//   GlobalMemory memory;
//   const uint64_t x = memory.add("x", bytes, Access::input);
//   shared.read({.slot = warp, .clock = clock[warp]}, 1024, 16);
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/cuda/ptx/fault.h"
#include "tests/cuda/ptx/machine.h"

namespace qcg::ptx {

// ---- global memory
enum class Access { input, output, in_out };  // an output must be written before it is read

struct Buffer {
  std::string name;
  Access access = Access::input;
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> written;                // per byte
  uint64_t bytes_read = 0, bytes_written = 0;  // of all accesses; one read twice counts twice
};

class GlobalMemory {
 public:
  // `shift`: bytes by which the buffer misses an alignment of 256. The reference stays valid.
  Buffer& add(std::string name, std::vector<uint8_t> bytes, Access access, uint64_t shift = 0);
  // The bytes of an access, or the reason why there are none. `Fault::where` is left to the caller.
  uint8_t* read(uint64_t address, uint64_t bytes);
  uint8_t* write(uint64_t address, uint64_t bytes);
  Buffer* find(uint64_t address);
  std::deque<Buffer>& buffers() { return buffers_; }

 private:
  Buffer& inside(uint64_t address, uint64_t bytes, const char* what);
  std::deque<Buffer> buffers_;
};

// ---- clocks
constexpr int kMaxWarps = 16, kMaxGroups = kMaxWarps / 4;
constexpr int kWgmmaSlot = kMaxWarps, kStoreSlot = kWgmmaSlot + kMaxGroups, kReaderSlots = kStoreSlot + 1;
constexpr int kBarrierSlot = kReaderSlots, kBarrierSlots = 43,
              kSlots = kBarrierSlot + kBarrierSlots;  // one per mbarrier

struct Clock {
  std::array<uint32_t, kSlots> at{};
  std::array<uint32_t, kMaxWarps> fenced{};  // of each warp's writes, what asynchronous hardware may read
  void join(const Clock& other);
  void meet(const Clock& other);  // what both know
};

// ---- shared memory
struct Reader {
  int slot;
  uint32_t count;  // the slot's own count at this access
  const Clock& clock;
  bool asynchronous = false;  // TMA, bulk copies and wgmma
};

class SharedMemory {
 public:
  void reset(uint32_t bytes);
  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t* at(uint32_t address) { return bytes_.data() + address; }

  void read(const Reader& reader, uint32_t address, uint32_t bytes);
  // May it be written now; then: it is written. Apart, because an asynchronous copy may be anywhere between.
  void check_write(const Reader& writer, uint32_t address, uint32_t bytes);
  void mark_written(int slot, uint32_t count, bool asynchronous, uint32_t address, uint32_t bytes);
  // An asynchronous copy of a thread (cp.async) is under way to these bytes: nobody may touch them.
  void set_in_flight(uint32_t address, uint32_t bytes, bool on);

 private:
  struct Word {
    uint32_t write_count = 0;
    uint8_t write_slot = 0, write_mask = 0;  // of the last write: bytes of the word
    uint8_t ever_written = 0, ever_read = 0;
    bool asynchronous = false, in_flight = false;
  };
  void check_range(uint32_t address, uint32_t bytes, const char* what) const;
  std::vector<uint8_t> bytes_;
  std::vector<Word> words_;
  std::vector<uint32_t> reads_;  // kReaderSlots per word: the reader's count at its last read
};

std::string slot_name(int slot);

}  // namespace qcg::ptx
