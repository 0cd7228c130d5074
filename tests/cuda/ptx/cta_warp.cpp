// Cta: lanes that meet, matrix products and ldmatrix.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/cuda/ptx/cta.h"
#include "tests/cuda/ptx/floats.h"

namespace qcg::ptx {

void Cta::meet(const char* what, uint32_t mask, const uint64_t (&in)[3], uint64_t (&out)[2], ComputeLanes compute,
               void* context) {
  Warp& warp = my_warp();
  const uint32_t lane = thread->lane;
  if (!(mask >> lane & 1))
    fail(FaultKind::divergence, fmt::format("lane {} executes {} with a mask of {:#x} without it", lane, what, mask));
  Meeting* meeting = nullptr;
  for (Meeting& m : warp.meetings) {
    if (m.mask == mask) meeting = &m;
    else if (m.mask & mask & ~warp.exited)
      fail(FaultKind::divergence,
           fmt::format("lanes {:#x} meet at {}, others of them already wait at {} ({}) for {:#x}", mask, what,
                       options_.describe_line(m.line), m.what, m.mask));
  }
  for (Meeting& m : warp.meetings)
    if (!meeting && m.mask == 0) meeting = &m;
  if (!meeting) fail(FaultKind::unsupported, "a warp in more than four parts");
  if (meeting->mask == 0) {
    *meeting = Meeting{};
    meeting->mask = mask, meeting->line = line, meeting->what = what, meeting->context = context,
    meeting->compute = compute;
  } else if (meeting->line != line) {
    fail(FaultKind::divergence, fmt::format("lanes of warp {} wait at {} ({}) while others are at {}", thread->warp,
                                            options_.describe_line(meeting->line), meeting->what, what));
  }
  meeting->arrived |= 1u << lane;
  std::memcpy(meeting->lanes.in[lane], in, sizeof in);
  meeting->out[lane] = &out;
  if (meeting->arrived == (mask & ~warp.exited)) complete(warp, *meeting);
  else block(what);
}

void Cta::complete(Warp& warp, Meeting& m) {
  m.lanes.mask = m.arrived;
  m.compute(m.lanes, m.context);
  const int first = static_cast<int>(&warp - warps_.data()) * 32;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(m.arrived >> lane & 1)) continue;
    std::memcpy(*m.out[lane], m.lanes.out[lane], sizeof *m.out[lane]);
    if (first + lane != fibers_.current()) fibers_.ready(first + lane);
  }
  m.mask = 0;
  ++progress_;
  polls_without_progress_ = 0;
}

// Lanes that have returned count, so that the answer does not depend on the order in which lanes run.
uint32_t Cta::active_mask() { return my_warp().launched; }

// ---- matrix products
namespace {

// Where element (row, column) of an operand lies: PTX ISA, "Matrix fragments for mma.m16n8k*". A row-major operand
// has groups of `per` elements in a register; rows r and r + 8 and the halves of k alternate.
struct Place {
  int lane, reg, part;
};
Place place_a(int row, int k, int per) {
  const int group = k / per;  // of a register
  return {row % 8 * 4 + group % 4, row / 8 + group / 4 * 2, k % per};
}
Place place_b(int k, int column, int per) {
  const int group = k / per;
  return {column * 4 + group % 4, group / 4, k % per};
}
Place place_d(int row, int column) { return {row % 8 * 4 + column / 2, row / 8 * 2 + column % 2, 0}; }

double decode(Element e, uint32_t word, int part) {
  const int bits = element_bits(e);
  const uint32_t v = bits == 32 ? word : word >> (part * bits) & ((1u << bits) - 1);
  switch (e) {
    case Element::f32: return as_float(v);
    case Element::tf32: return as_float(v & ~0x1fffu);
    case Element::bf16: return from_bf16(static_cast<uint16_t>(v));
    case Element::f16: return decode_float(kF16, v);
    case Element::e4m3: return decode_float(kE4m3, v);
    case Element::e5m2: return decode_float(kE5m2, v);
    case Element::s8: return static_cast<int8_t>(v);
    case Element::s4: return static_cast<int8_t>(v << 4) >> 4;
    case Element::s32: return static_cast<int32_t>(v);
    case Element::u8:
    case Element::u4:
    case Element::b1: return v;
  }
  return 0;
}

}  // namespace

// Sums of one instruction are made in double and rounded once: exact where every order of summation is.
void Cta::multiply(const MmaShape& s, Lanes& lanes) {
  const int a_words = s.m * s.k * element_bits(s.a) / 1024, b_words = s.k * s.n * element_bits(s.b) / 1024;
  const int d_words = s.m * s.n * element_bits(s.d) / 1024, c_at = d_words + a_words + b_words;
  const auto word = [&](int lane, int reg) -> uint32_t& { return reinterpret_cast<uint32_t*>(lanes.in[lane][0])[reg]; };
  double a[16][64], b[8][64];
  const int per_a = 32 / element_bits(s.a), per_b = 32 / element_bits(s.b);
  for (int k = 0; k < s.k; ++k) {
    for (int row = 0; row < s.m; ++row) {
      const Place p = place_a(row, k, per_a);
      a[row][k] = decode(s.a, word(p.lane, d_words + p.reg), p.part);
    }
    for (int column = 0; column < s.n; ++column) {
      const Place p = place_b(k, column, per_b);
      b[column][k] = decode(s.b, word(p.lane, d_words + a_words + p.reg), p.part);
    }
  }
  for (int row = 0; row < s.m; ++row)
    for (int column = 0; column < s.n; ++column) {
      Place p = place_d(row, column);
      if (s.d == Element::f16) p.part = p.reg % 2, p.reg /= 2;
      double sum = decode(s.d, word(p.lane, c_at + p.reg), p.part);
      for (int k = 0; k < s.k; ++k) sum += a[row][k] * b[column][k];
      uint32_t& out = word(p.lane, p.reg);
      if (s.d == Element::f32) out = as_bits(static_cast<float>(sum));
      else if (s.d == Element::f16)
        out = (out & ~(0xffffu << 16 * p.part)) | encode_float(kF16, sum, Rounding::even) << 16 * p.part;
      else
        out = static_cast<uint32_t>(s.saturate ? std::clamp<int64_t>(int64_t(sum), INT32_MIN, INT32_MAX)
                                               : static_cast<int64_t>(sum));
    }
}

void Cta::mma(const MmaShape& shape, uint32_t* registers) {
  struct Call {
    Cta* cta;
    MmaShape shape;
  } call{this, shape};
  uint64_t out[2];
  meet(
      "mma", ~0u, {reinterpret_cast<uint64_t>(registers)}, out,
      [](Lanes& lanes, void* context) {
        const Call& c = *static_cast<Call*>(context);
        if (lanes.mask != ~0u) c.cta->fail(FaultKind::divergence, "mma without all 32 lanes");
        c.cta->multiply(c.shape, lanes);
      },
      &call);
}

// ---- ldmatrix, stmatrix: lane 8 i + r gives the row r of matrix i; register i of lane l has elements 2 (l % 4), + 1
// of row l / 4
struct Cta::MatrixCall {
  Cta* cta;
  int count;
  bool transposed;
};

void Cta::ldmatrix(int count, bool transposed, uint32_t address, uint32_t* registers) {
  if (thread->lane < static_cast<uint32_t>(count) * 8) {
    check_alignment(address, 16, "a row of ldmatrix");
    shared_.read(as_warp(), address, 16);
    note(AccessLog::Kind::shared, address, 16);
  }
  MatrixCall call{this, count, transposed};
  uint64_t out[2];
  meet(
      "ldmatrix", ~0u, {address, reinterpret_cast<uint64_t>(registers)}, out,
      [](Lanes& lanes, void* context) {
        const MatrixCall& c = *static_cast<MatrixCall*>(context);
        if (lanes.mask != ~0u) c.cta->fail(FaultKind::divergence, "ldmatrix without all 32 lanes");
        for (int i = 0; i < c.count; ++i)
          for (int l = 0; l < 32; ++l) {
            const auto element = [&](int row, int column) {
              uint16_t v;
              std::memcpy(&v, c.cta->shared_.at(static_cast<uint32_t>(lanes.in[8 * i + row][0])) + column * 2, 2);
              return uint32_t{v};
            };
            const int row = l / 4, column = l % 4 * 2;
            reinterpret_cast<uint32_t*>(lanes.in[l][1])[i] =
                c.transposed ? element(column, row) | element(column + 1, row) << 16
                             : element(row, column) | element(row, column + 1) << 16;
          }
      },
      &call);
}

void Cta::stmatrix(int count, bool transposed, uint32_t address, const uint32_t* registers) {
  if (thread->lane < static_cast<uint32_t>(count) * 8) {
    check_alignment(address, 16, "a row of stmatrix");
    shared_.check_write(as_warp(), address, 16);
    shared_.mark_written(my_slot(), my_count(), false, address, 16);
    note(AccessLog::Kind::shared, address, 16);
  }
  ++progress_;
  MatrixCall call{this, count, transposed};
  uint64_t out[2];
  meet(
      "stmatrix", ~0u, {address, reinterpret_cast<uint64_t>(registers)}, out,
      [](Lanes& lanes, void* context) {
        const MatrixCall& c = *static_cast<MatrixCall*>(context);
        if (lanes.mask != ~0u) c.cta->fail(FaultKind::divergence, "stmatrix without all 32 lanes");
        for (int i = 0; i < c.count; ++i)
          for (int l = 0; l < 32; ++l)
            for (int h = 0; h < 2; ++h) {
              const uint16_t v = static_cast<uint16_t>(reinterpret_cast<const uint32_t*>(lanes.in[l][1])[i] >> 16 * h);
              const int row = c.transposed ? l % 4 * 2 + h : l / 4, column = c.transposed ? l / 4 : l % 4 * 2 + h;
              std::memcpy(c.cta->shared_.at(static_cast<uint32_t>(lanes.in[8 * i + row][0])) + column * 2, &v, 2);
            }
      },
      &call);
}

}  // namespace qcg::ptx
