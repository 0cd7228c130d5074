// Cta: wgmma. Four warps give one product; its operands are read and its accumulators written until it is waited for.
#include <fmt/format.h>

#include <cstring>

#include "tests/cuda/ptx/cta.h"
#include "tests/cuda/ptx/floats.h"

namespace qcg::ptx {

// The last of the 128 threads acts for all.
void Cta::gather(const char* what, const std::function<void(WgmmaGroup&)>& last) {
  WgmmaGroup& g = my_group();
  if ((thread->warp / 4 + 1) * 4 > warps_.size())
    fail(FaultKind::protocol, fmt::format("{} in a CTA whose last group has no four warps", what));
  if (g.arrived && g.line != line)
    fail(FaultKind::divergence, fmt::format("warps of a group are at {} and {}", options_.describe_line(g.line), what));
  g.line = line;
  if (++g.arrived < 128) {
    g.waiting.push_back(fibers_.current());
    return block(what);
  }
  last(g);
  g.arrived = 0;
  for (const int t : g.waiting) fibers_.ready(t);
  g.waiting.clear();
  ++progress_;
  polls_without_progress_ = 0;
}

void Cta::wgmma_fence() {
  gather("wgmma.fence", [](WgmmaGroup& g) { g.fenced = true; });
}

namespace {

struct Descriptor {
  uint32_t start, leading, stride, swizzle_bytes;
};
Descriptor unpack(uint64_t d) {
  constexpr uint32_t kSwizzle[] = {0, 128, 64, 32};
  const auto field = [&](int at) { return static_cast<uint32_t>(d >> at & 0x3fff) << 4; };
  return {field(0), field(16), field(32), kSwizzle[d >> 62]};
}

// The byte at (row, k) before the swizzle. PTX ISA, "Matrix-Descriptor Format", and the canonical layouts:
// k-major: 8 rows of one swizzle span each are an atom, atoms of rows `stride` apart; without a swizzle an atom is 8
// rows of 16 bytes and the next 16 bytes of k are `leading` further. mn-major: a span of rows for each of 8 k.
uint32_t element_offset(const Descriptor& d, uint32_t row, uint32_t k, uint32_t bytes, bool mn_major) {
  if (!mn_major) {
    const uint32_t at = k * bytes;
    if (!d.swizzle_bytes) return row / 8 * d.stride + at / 16 * d.leading + row % 8 * 16 + at % 16;
    return row / 8 * d.stride + row % 8 * d.swizzle_bytes + at;
  }
  if (!d.swizzle_bytes) return row / 8 * d.stride + k / 8 * d.leading + k % 8 * 16 + row % 8 * bytes;
  const uint32_t span = d.swizzle_bytes / bytes;
  return row / span * d.leading + k / 8 * d.stride + k % 8 * d.swizzle_bytes + row % span * bytes;
}

float value_of(Element e, uint32_t bits) {
  switch (e) {
    case Element::bf16: return from_bf16(static_cast<uint16_t>(bits));
    case Element::f16: return static_cast<float>(decode_float(kF16, bits));
    case Element::e4m3: return static_cast<float>(decode_float(kE4m3, bits));
    case Element::e5m2: return static_cast<float>(decode_float(kE5m2, bits));
    case Element::tf32: return as_float(bits & ~0x1fffu);
    case Element::s8: return static_cast<int8_t>(bits);
    default: return static_cast<float>(bits);
  }
}

}  // namespace

// rows x k elements, k of 32 bytes. `check`: the accesses count as reads of the wgmma from now until it is waited for.
std::vector<float> Cta::shared_operand(uint64_t descriptor, int rows, Element element, bool transposed,
                                       const Clock& clock, uint32_t ticket, bool check) {
  const Descriptor d = unpack(descriptor);
  const uint32_t bytes = static_cast<uint32_t>(element_bits(element)) / 8, depth = 32 / bytes;
  if (transposed && bytes != 2) fail(FaultKind::protocol, "wgmma transposes elements of 16 bits only");
  const int slot = kWgmmaSlot + static_cast<int>(thread->warp / 4);
  std::vector<float> out(static_cast<size_t>(rows) * depth);
  uint32_t checked = ~0u;
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row)
    for (uint32_t k = 0; k < depth; ++k) {
      const uint32_t at = swizzled(d.start + element_offset(d, row, k, bytes, transposed), d.swizzle_bytes);
      if (at / 16 != checked && check) {
        shared_.read({slot, ticket, clock, true}, at & ~15u, 16);
        checked = at / 16;
      }
      uint32_t bits = 0;
      if (at + bytes > shared_.size()) fail(FaultKind::out_of_bounds, fmt::format("wgmma reads shared {}", at));
      std::memcpy(&bits, shared_.at(at), bytes);
      out[row * depth + k] = value_of(element, bits);
    }
  return out;
}

void Cta::wgmma(const WgmmaCall& call) {
  WgmmaGroup& mine = my_group();
  const uint32_t member = thread->linear % 128;
  mine.accumulators[member] = call.accumulators;
  mine.a_registers[member] = call.a_registers;
  gather("wgmma.mma_async", [this, &call](WgmmaGroup& g) {
    if (!g.fenced) fail(FaultKind::protocol, "wgmma.mma_async without wgmma.fence before it");
    const uint32_t first = thread->warp / 4 * 4;
    Clock clock = warps_[first].clock;  // what all four warps know
    for (uint32_t w = 1; w < 4; ++w) clock.meet(warps_[first + w].clock);
    const bool a_in_registers = call.a_registers != nullptr;
    const int depth = 256 / element_bits(call.a), outputs = call.n * element_bits(call.d) / 64;
    // The registers' addresses: the arrays of them are gone when the threads go on.
    auto accumulators = std::make_shared<std::vector<uint32_t*>>();
    auto registers = std::make_shared<std::vector<uint32_t*>>();
    for (int t = 0; t < 128; ++t) {
      accumulators->insert(accumulators->end(), g.accumulators[t], g.accumulators[t] + outputs);
      if (a_in_registers) registers->insert(registers->end(), g.a_registers[t], g.a_registers[t] + 4);
    }
    // Faults are found now; the values are those of the moment it runs.
    if (!a_in_registers) shared_operand(call.a_descriptor, 64, call.a, call.transposed_a, clock, g.tickets, true);
    shared_operand(call.b_descriptor, call.n, call.b, call.transposed_b, clock, g.tickets, true);
    auto run = [this, call, accumulators, registers, clock, depth, outputs] {
      std::vector<float> a;
      if (registers->empty()) {
        a = shared_operand(call.a_descriptor, 64, call.a, call.transposed_a, clock, 0, false);
      } else {  // as the a operand of mma.m16n8k16, one warp for 16 rows
        const int bits = element_bits(call.a), per = 32 / bits;
        a.resize(64 * static_cast<size_t>(depth));
        for (int row = 0; row < 64; ++row)
          for (int k = 0; k < depth; ++k) {
            const int t = row / 16 * 32 + row % 8 * 4 + k / per % 4, r = row % 16 / 8 + k / per / 4 * 2;
            const uint32_t word = *(*registers)[static_cast<size_t>(t * 4 + r)];
            a[static_cast<size_t>(row * depth + k)] =
                value_of(call.a, bits == 32 ? word : word >> (k % per * bits) & ((1u << bits) - 1));
          }
      }
      const std::vector<float> b =
          shared_operand(call.b_descriptor, call.n, call.b, call.transposed_b, clock, 0, false);
      for (int t = 0; t < 128; ++t)
        for (int e = 0; e < call.n / 2; ++e) {
          const int row = t / 32 * 16 + t % 32 / 4 + e % 4 / 2 * 8, column = e / 4 * 8 + t % 4 * 2 + e % 2;
          const bool packed = call.d == Element::f16;
          uint32_t& out = *(*accumulators)[static_cast<size_t>(t * outputs + (packed ? e / 2 : e))];
          double sum = 0;
          const float *x = &a[static_cast<size_t>(row * depth)], *w = &b[static_cast<size_t>(column * depth)];
          for (int k = 0; k < depth; ++k) sum += static_cast<double>(x[k]) * w[k];
          sum *= call.scale_a * call.scale_b;
          if (call.d == Element::s32) {
            out = (call.accumulate ? out : 0) + static_cast<uint32_t>(static_cast<int64_t>(sum));
          } else if (packed) {
            const int shift = e % 2 * 16;
            if (call.accumulate) sum += decode_float(kF16, out >> shift & 0xffff);
            out = (out & ~(0xffffu << shift)) | encode_float(kF16, sum, Rounding::even) << shift;
          } else {
            if (call.accumulate) sum += as_float(out);
            out = as_bits(static_cast<float>(sum));
          }
        }
    };
    if (options_.timing == Timing::early) run();
    else g.open.push_back(std::move(run));
  });
}

void Cta::wgmma_commit() {
  gather("wgmma.commit_group", [](WgmmaGroup& g) {
    g.committed.push_back(std::move(g.open));
    g.open.clear();
    ++g.tickets;
  });
}

void Cta::wgmma_wait(uint32_t pending) {
  gather("wgmma.wait_group", [this, pending](WgmmaGroup& g) {
    for (; g.committed.size() > pending; g.committed.pop_front()) {
      for (auto& run : g.committed.front()) run();
      ++g.completed;
    }
    g.fenced = false;  // the registers may be touched now
    const size_t slot = static_cast<size_t>(kWgmmaSlot) + thread->warp / 4, first = thread->warp / 4 * 4;
    for (size_t w = first; w < first + 4; ++w) {
      uint32_t& known = warps_[w].clock.at[slot];
      known = std::max(known, g.completed);
    }
  });
}

}  // namespace qcg::ptx
