// Opcodes of the PTX executor, one at a time, against results worked out by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "tests/cuda/ptx/executor.h"
#include "tests/cuda/ptx/floats.h"

using namespace qcg;
using namespace qcg::ptx;

namespace {

constexpr const char* kHead = ".version 8.0\n.target sm_90a\n.address_size 64\n";

LoadedKernel load_or_fail(const std::string& text) {
  auto kernel = load_kernel(text);
  REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
  return std::move(*kernel);
}

uint64_t f(float x) { return as_bits(x); }

struct Case {
  const char* code;  // leaves its result in %r9, %h9 (16 bits), %d9 (64 bits) or %p9
  const char* result;
  uint64_t expected;
};

// Inputs: what a case needs it moves there itself.
const Case kCases[] = {
    {"add.s32 %r9, 5, -7;", "r", 0xfffffffe},
    {"add.u16 %h9, 65535, 3;", "h", 2},
    {"add.s64 %d9, -1, 3;", "d", 2},
    {"add.sat.s32 %r9, 0x7fffffff, 1;", "r", 0x7fffffff},
    {"sub.s32 %r9, 5, 7;", "r", 0xfffffffe},
    {"mul.lo.s32 %r9, -3, 7;", "r", 0xffffffeb},
    {"mul.hi.s32 %r9, -2, 3;", "r", 0xffffffff},
    {"mul.hi.u32 %r9, -2, 3;", "r", 2},
    {"mul.wide.s32 %d9, -2, 3;", "d", 0xfffffffffffffffa},
    {"mul.wide.u32 %d9, -2, 3;", "d", 0x2fffffffa},
    {"mul.wide.s16 %r9, -2, 3;", "r", 0xfffffffa},
    {"mad.lo.s32 %r9, -3, 7, 30;", "r", 9},
    {"mad.hi.u32 %r9, -2, 3, 5;", "r", 7},
    {"mad.wide.s32 %d9, -2, 3, 10;", "d", 4},
    {"mul24.lo.u32 %r9, 0x1000002, 3;", "r", 6},
    {"sad.u32 %r9, 3, 10, 1;", "r", 8},
    {"div.s32 %r9, -7, 2;", "r", 0xfffffffd},
    {"div.u32 %r9, -7, 2;", "r", 0x7ffffffc},
    {"rem.s32 %r9, -7, 2;", "r", 0xffffffff},
    {"rem.u64 %d9, 17, 5;", "d", 2},
    {"min.s32 %r9, -7, 2;", "r", 0xfffffff9},
    {"min.u32 %r9, -7, 2;", "r", 2},
    {"max.s64 %d9, -7, 2;", "d", 2},
    {"neg.s32 %r9, 5;", "r", 0xfffffffb},
    {"abs.s32 %r9, -5;", "r", 5},
    {"and.b32 %r9, 12, 10;", "r", 8},
    {"or.b64 %d9, 12, 10;", "d", 14},
    {"xor.b16 %h9, 12, 10;", "h", 6},
    {"not.b32 %r9, 12;", "r", 0xfffffff3},
    {"cnot.b32 %r9, 0;", "r", 1},
    {"shl.b32 %r9, 3, 31;", "r", 0x80000000},
    {"shl.b32 %r9, 3, 32;", "r", 0},
    {"shr.s32 %r9, -8, 40;", "r", 0xffffffff},
    {"shr.u32 %r9, -8, 4;", "r", 0x0fffffff},
    {"shr.s16 %h9, -8, 1;", "h", 0xfffc},
    {"shf.l.wrap.b32 %r9, 0x80000000, 1, 33;", "r", 3},
    {"shf.r.wrap.b32 %r9, 2, 1, 1;", "r", 0x80000001},
    {"shf.r.clamp.b32 %r9, 2, 7, 40;", "r", 7},
    {"bfe.u32 %r9, 0x12345678, 8, 8;", "r", 0x56},
    {"bfe.s32 %r9, 0x0000f000, 8, 8;", "r", 0xfffffff0},
    {"bfi.b32 %r9, 0xff, 0, 4, 8;", "r", 0xff0},
    {"popc.b32 %r9, 0xf0f0;", "r", 8},
    {"popc.b64 %r9, -1;", "r", 64},
    {"clz.b32 %r9, 1;", "r", 31},
    {"clz.b32 %r9, 0;", "r", 32},
    {"brev.b32 %r9, 1;", "r", 0x80000000},
    {"bfind.u32 %r9, 0x100;", "r", 8},
    {"bfind.s32 %r9, -1;", "r", 0xffffffff},
    {"bfind.shiftamt.u32 %r9, 0x100;", "r", 23},
    {"lop3.b32 %r9, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xea;", "r", 0xeaeaeaea},  // (a & b) | c
    {"lop3.b32 %r9, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96;", "r", 0x96969696},  // a ^ b ^ c
    {"prmt.b32 %r9, 0x33221100, 0x77665544, 0x7250;", "r", 0x77225500},
    {"prmt.b32 %r9, 0x00008000, 0, 0x9999;", "r", 0xffffffff},     // the sign of byte 1, four times
    {"dp4a.s32.s32 %r9, 0xff020304, 0x02010101, 100;", "r", 107},  // -1 * 2 + 2 + 3 + 4 + 100
    {"dp4a.u32.u32 %r9, 0xff020304, 0x02010101, 100;", "r", 619},
    {"add.cc.u32 %r1, -1, 1; addc.u32 %r9, 5, 5;", "r", 11},
    {"sub.cc.u32 %r1, 0, 1; subc.u32 %r9, 5, 1;", "r", 3},
    {"mad.lo.cc.u32 %r1, -1, 2, 2; madc.hi.u32 %r9, -1, 2, 0;", "r", 2},
    {"mov.b64 %d9, {0x11, 0x22};", "d", 0x2200000011},
    {"mov.b64 %d1, 0x2200000011; mov.b64 {%r1, %r9}, %d1;", "r", 0x22},
    {"mov.b64 %d1, 0x2200000011; mov.b64 {%r9, _}, %d1;", "r", 0x11},
    {"mov.b16 %h1, 7; mov.b32 %r9, {%h1, 9};", "r", 0x90007},
    {"setp.lt.s32 %p9, -1, 1;", "p", 1},
    {"setp.lt.u32 %p9, -1, 1;", "p", 0},
    {"setp.hi.u32 %p9, -1, 1;", "p", 1},
    {"setp.eq.s32 %p1|%p9, 1, 1;", "p", 0},
    {"setp.eq.s32 %p1, 1, 1; setp.lt.and.s32 %p9, 0, 1, %p1;", "p", 1},
    {"setp.eq.s32 %p1, 1, 1; setp.lt.and.s32 %p9, 0, 1, !%p1;", "p", 0},
    {"setp.lt.f32 %p9, 0f7fc00000, 0f3f800000;", "p", 0},
    {"setp.ltu.f32 %p9, 0f7fc00000, 0f3f800000;", "p", 1},
    {"setp.neu.f32 %p9, 0f3f800000, 0f3f800000;", "p", 0},
    {"setp.nan.f32 %p9, 0f7fc00000, 0f3f800000;", "p", 1},
    {"setp.eq.s32 %p1, 1, 0; or.pred %p9, %p1, %p1;", "p", 0},
    {"setp.eq.s32 %p1, 1, 0; not.pred %p9, %p1;", "p", 1},
    {"set.lt.u32.s32 %r9, -1, 1;", "r", 0xffffffff},
    {"setp.eq.s32 %p1, 1, 0; selp.b32 %r9, 3, 4, %p1;", "r", 4},
    {"slct.b32.s32 %r9, 3, 4, -1;", "r", 4},
    {"setp.eq.s32 %p1, 1, 0; mov.u32 %r9, 1; @%p1 mov.u32 %r9, 2; @!%p1 add.s32 %r9, %r9, 4;", "r", 5},
    {"mov.u32 %r9, 0; LOOP: add.u32 %r9, %r9, 3; setp.lt.u32 %p1, %r9, 10; @%p1 bra LOOP;", "r", 12},
    // floats
    {"add.f32 %r9, 0f3f800000, 0f40000000;", "r", f(3)},
    {"add.rz.f32 %r9, 0f3f800000, 0f33ffffff;", "r", f(1)},  // 1 + just below 2^-23
    {"add.rn.f32 %r9, 0f3f800000, 0f33ffffff;", "r", f(1 + 0x1p-23f)},
    {"add.rp.f32 %r9, 0f3f800000, 0f00800000;", "r", f(1 + 0x1p-23f)},
    {"sub.f32 %r9, 0f3f800000, 0f40000000;", "r", f(-1)},
    {"mul.f32 %r9, 0f40400000, 0f40000000;", "r", f(6)},
    {"mul.ftz.f32 %r9, 0f00800000, 0f3f000000;", "r", 0},  // half of the smallest normal
    {"mul.f32 %r9, 0f00800000, 0f3f000000;", "r", 0x00400000},
    {"fma.rn.f32 %r9, 0f3f800001, 0f3f800001, 0fbf800002;", "r", f(0x1p-46f)},
    {"fma.rn.ftz.f32 %r9, 0f40000000, 0f40000000, 0f3f800000;", "r", f(5)},
    {"div.rn.f32 %r9, 0f3f800000, 0f40400000;", "r", f(1.0f / 3)},
    {"div.full.f32 %r9, 0f40c00000, 0f40000000;", "r", f(3)},
    {"min.f32 %r9, 0f7fc00000, 0f3f800000;", "r", f(1)},
    {"max.f32 %r9, 0f80000000, 0f00000000;", "r", f(0)},
    {"max.NaN.f32 %r9, 0f3f800000, 0f7fffffff;", "r", 0x7fffffff},
    {"neg.f32 %r9, 0f3f800000;", "r", f(-1)},
    {"abs.f32 %r9, 0fbf800000;", "r", f(1)},
    {"copysign.f32 %r9, 0fbf800000, 0f40000000;", "r", f(-2)},
    {"rcp.rn.f32 %r9, 0f40000000;", "r", f(0.5f)},
    {"rcp.approx.ftz.f32 %r9, 0f40800000;", "r", f(0.25f)},
    {"sqrt.rn.f32 %r9, 0f41100000;", "r", f(3)},
    {"rsqrt.approx.f32 %r9, 0f40800000;", "r", f(0.5f)},
    {"ex2.approx.ftz.f32 %r9, 0f40400000;", "r", f(8)},
    {"lg2.approx.f32 %r9, 0f41000000;", "r", f(3)},
    {"sin.approx.f32 %r9, 0f00000000;", "r", f(0)},
    {"cos.approx.f32 %r9, 0f00000000;", "r", f(1)},
    {"tanh.approx.f32 %r9, 0f00000000;", "r", f(0)},
    {"add.f64 %d9, 0d3ff0000000000000, 0d4000000000000000;", "d", 0x4008000000000000},
    {"add.rn.f16 %h9, 0x3c00, 0x4000;", "h", 0x4200},
    {"fma.rn.bf16x2 %r9, 0x40003f80, 0x3f803f80, 0xbf803f80;", "r", 0x3f804000},  // {1*1+1, 2*1-1}
    {"fma.rn.f16x2 %r9, 0x40003c00, 0x3c003c00, 0xbc003c00;", "r", 0x3c004000},
    {"sub.f16x2 %r9, 0x64056403, 0x64006400;", "r", 0x45004200},  // 1029 - 1024, 1027 - 1024
    {"mul.rn.bf16x2 %r9, 0x40004040, 0x40004000;", "r", 0x408040c0},
    {"fma.rn.relu.f16x2 %r9, 0x3c003c00, 0xbc003c00, 0x00000000;", "r", 0x00003c00},
    // conversions
    {"cvt.s64.s32 %d9, -5;", "d", 0xfffffffffffffffb},
    {"cvt.u64.u32 %d9, -5;", "d", 0xfffffffb},
    {"cvt.u32.u64 %r9, 0x100000002;", "r", 2},
    {"cvt.s32.s8 %r9, 0xff;", "r", 0xffffffff},
    {"cvt.u32.u8 %r9, 0x1ff;", "r", 0xff},
    {"cvt.sat.s8.s32 %r9, 1000;", "r", 127},
    {"cvt.sat.u8.s32 %r9, -5;", "r", 0},
    {"cvt.rn.f32.s32 %r9, -3;", "r", f(-3)},
    {"cvt.rn.f32.u32 %r9, 0xffffffff;", "r", f(4294967296.0f)},
    {"cvt.rz.f32.u32 %r9, 0xffffffff;", "r", 0x4f7fffff},
    {"cvt.rni.s32.f32 %r9, 0f40200000;", "r", 2},
    {"cvt.rzi.s32.f32 %r9, 0fc0700000;", "r", 0xfffffffd},
    {"cvt.rmi.s32.f32 %r9, 0fbf000000;", "r", 0xffffffff},
    {"cvt.rpi.s32.f32 %r9, 0f3f000000;", "r", 1},
    {"cvt.rzi.s32.f32 %r9, 0f7f000000;", "r", 0x7fffffff},
    {"cvt.rzi.u32.f32 %r9, 0fbf800000;", "r", 0},
    {"cvt.rni.s32.f32 %r9, 0f7fc00000;", "r", 0},
    {"cvt.rni.f32.f32 %r9, 0f40600000;", "r", f(4)},
    {"cvt.rzi.f32.f32 %r9, 0fc0600000;", "r", f(-3)},
    {"cvt.rmi.f32.f32 %r9, 0fc0600000;", "r", f(-4)},
    {"cvt.sat.f32.f32 %r9, 0f40600000;", "r", f(1)},
    {"cvt.rn.bf16.f32 %h9, 0f3f808000;", "h", 0x3f80},  // half way: to even
    {"cvt.rn.bf16.f32 %h9, 0f3f818000;", "h", 0x3f82},
    {"cvt.rz.bf16.f32 %h9, 0f3f81ffff;", "h", 0x3f81},
    {"cvt.rn.f16.f32 %h9, 0f477ff000;", "h", 0x7c00},  // 65520 is infinite
    {"cvt.rn.f16.f32 %h9, 0f33800000;", "h", 0x0001},  // 2^-24
    {"cvt.rn.satfinite.f16.f32 %h9, 0f49742400;", "h", 0x7bff},
    {"cvt.f32.f16 %r9, 0x0001;", "r", f(0x1p-24f)},
    {"cvt.f32.bf16 %r9, 0x4040;", "r", f(3)},
    {"cvt.rn.bf16x2.f32 %r9, 0f40000000, 0f3f800000;", "r", 0x40003f80},  // the first is the high half
    {"cvt.rn.f16x2.f32 %r9, 0f40000000, 0f3f800000;", "r", 0x40003c00},
    {"cvt.rn.relu.bf16x2.f32 %r9, 0fc0000000, 0f3f800000;", "r", 0x00003f80},
    {"cvt.rn.satfinite.e4m3x2.f32 %h9, 0f43fa0000, 0f3f800000;", "h", 0x7e38},  // 500 -> 448, 1
    {"cvt.rn.satfinite.e5m2x2.f32 %h9, 0f3f800000, 0fc0000000;", "h", 0x3cc0},
    {"cvt.rn.f16x2.e4m3x2 %r9, 0x3801;", "r", 0x3c001800},
    {"cvt.rn.f16x2.e5m2x2 %r9, 0x3cc0;", "r", 0x3c00c000},
    {"cvt.rn.satfinite.e4m3x2.f16x2 %h9, 0x3c004000;", "h", 0x3840},
    {"cvt.rna.tf32.f32 %r9, 0f3f801000;", "r", 0x3f802000},
    {"cvt.f64.f32 %d9, 0f3f800000;", "d", 0x3ff0000000000000},
    {"cvt.rn.f32.f64 %r9, 0d3ff0000000000000;", "r", f(1)},
    // memory spaces
    {"mov.u32 %r1, tile; st.shared.v2.u32 [%r1+8], {7, 9}; ld.shared.u32 %r9, [tile+12];", "r", 9},
    {"mov.u32 %r1, 0x80ff; st.shared.u16 [tile], %r1; ld.shared.s8 %r9, [tile+1];", "r", 0xffffff80},
    {"st.local.u32 [depot+4], 5; ld.local.u32 %r9, [depot+4];", "r", 5},
    {"mov.u64 %d1, depot; cvta.local.u64 %d2, %d1; st.u32 [%d2], 6; ld.local.u32 %r9, [depot];", "r", 6},
    {"mov.u64 %d1, tile; cvta.shared.u64 %d2, %d1; st.u32 [%d2+4], 8; ld.shared.u32 %r9, [tile+4];", "r", 8},
    {"ld.const.u32 %r9, [table+4];", "r", 22},
    {"mov.u64 %d1, table; ld.global.u32 %r9, [%d1+8];", "r", 33},
    {"st.shared.u32 [tile], 5; atom.shared.add.u32 %r1, [tile], 4; ld.shared.u32 %r9, [tile];", "r", 9},
    {"st.shared.u32 [tile], 5; atom.shared.cas.b32 %r1, [tile], 5, 8; atom.shared.exch.b32 %r9, [tile], 1;", "r", 8},
    {"st.shared.u32 [tile], -5; red.shared.max.s32 [tile], -7; ld.shared.u32 %r9, [tile];", "r", 0xfffffffb},
    {"st.shared.f32 [tile], 0f3f800000; atom.shared.add.f32 %r1, [tile], 0f40000000; ld.shared.f32 %r9, [tile];", "r",
     f(3)},
    {"mov.u32 %r9, %ntid.x; add.u32 %r9, %r9, %tid.x;", "r", 1},
};

std::string store_of(const Case& c, size_t i) {
  if (c.result[0] == 'p') return fmt::format("selp.u32 %r9, 1, 0, %p9;\nst.global.u32 [%out+{}], %r9;", i * 8);
  if (c.result[0] == 'h') return fmt::format("st.global.u16 [%out+{}], %h9;", i * 8);
  if (c.result[0] == 'd') return fmt::format("st.global.u64 [%out+{}], %d9;", i * 8);
  return fmt::format("st.global.u32 [%out+{}], %r9;", i * 8);
}

// 32 lanes run `code`, which leaves a result in %r9; lane i has x[i] in %r0.
std::vector<uint32_t> run_warp(const std::string& code, const std::vector<uint32_t>& x) {
  CAPTURE(code);
  const LoadedKernel kernel =
      load_or_fail(std::string(kHead) +
                   ".visible .entry warp(.param .u64 in, .param .u64 out)\n{\n.reg .pred %p<10>;\n.reg .b32 "
                   "%r<10>;\n.reg .b64 %d<10>;\n"
                   ".shared .align 16 .b8 tile[1024];\n"
                   "mov.u32 %r8, %tid.x;\nmul.wide.u32 %d1, %r8, 4;\nld.param.u64 %d2, [in];\nadd.u64 %d2, %d2, "
                   "%d1;\nld.global.u32 %r0, [%d2];\n" +
                   code + "\nld.param.u64 %d2, [out];\nadd.u64 %d2, %d2, %d1;\nst.global.u32 [%d2], %r9;\nret;\n}\n");
  GlobalMemory memory = kernel.memory();
  std::vector<uint8_t> bytes(128);
  std::memcpy(bytes.data(), x.data(), 128);
  const uint64_t in = memory.add("in", bytes, Access::input).address;
  Buffer& out = memory.add("out", std::vector<uint8_t>(128), Access::output);
  const Outcome outcome = kernel.run({}, memory, {argument(in), argument(out.address)});
  REQUIRE_MESSAGE(outcome.ok(), outcome.text());
  std::vector<uint32_t> result(32);
  std::memcpy(result.data(), memory.buffers().back().bytes.data(), 128);
  return result;
}

std::vector<uint32_t> lanes() {
  std::vector<uint32_t> x(32);
  for (uint32_t i = 0; i < 32; ++i) x[i] = i;
  return x;
}

}  // namespace

TEST_CASE("ptx: scalar opcodes give what the ISA says") {
  std::string text = std::string(kHead) +
                     ".const .align 4 .u32 table[3] = {11, 22, 33};\n"
                     ".visible .entry scalar(.param .u64 out)\n{\n.reg .b64 %out;\n.shared .align 16 .b8 tile[64];\n"
                     ".local .align 8 .b8 depot[16];\nld.param.u64 %out, [out];\n";
  const size_t count = std::size(kCases);
  for (size_t i = 0; i < count; ++i)
    text += fmt::format("{{\n.reg .pred %p<10>;\n.reg .b16 %h<10>;\n.reg .b32 %r<10>;\n.reg .b64 %d<10>;\n{}\n{}\n}}\n",
                        kCases[i].code, store_of(kCases[i], i));
  const LoadedKernel kernel = load_or_fail(text + "ret;\n}\n");
  GlobalMemory memory = kernel.memory();
  const uint64_t out = memory.add("out", std::vector<uint8_t>(count * 8), Access::output).address;
  const Outcome outcome = kernel.run({.block = {1, 1, 1}}, memory, {argument(out)});
  REQUIRE_MESSAGE(outcome.ok(), outcome.text());
  for (size_t i = 0; i < count; ++i) {
    uint64_t got;
    std::memcpy(&got, memory.buffers().back().bytes.data() + i * 8, 8);
    CHECK_MESSAGE(got == kCases[i].expected, kCases[i].code,
                  fmt::format(" gives {:#x}, not {:#x}", got, kCases[i].expected));
  }
}

TEST_CASE("ptx: lanes exchange, vote and reduce") {
  std::vector<uint32_t> r = run_warp("shfl.sync.bfly.b32 %r9, %r0, 5, 31, -1;", lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == (i ^ 5));
  r = run_warp("shfl.sync.down.b32 %r9|%p1, %r0, 3, 0x181f, -1;", lanes());  // segments of 8
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == (i % 8 < 5 ? i + 3 : i));
  r = run_warp("shfl.sync.up.b32 %r9|%p1, %r0, 1, 0, -1; selp.u32 %r9, %r9, 99, %p1;", lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == (i ? i - 1 : 99));
  r = run_warp("shfl.sync.idx.b32 %r9, %r0, 2, 0x1c1f, -1;", lanes());  // segments of 4
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == i / 4 * 4 + 2);
  r = run_warp("setp.gt.u32 %p1, %r0, 29; vote.sync.ballot.b32 %r9, %p1, -1;", lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == 0xc0000000);
  r = run_warp(
      "setp.gt.u32 %p1, %r0, 29; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;"
      "selp.u32 %r9, 1, 0, %p2; @%p3 add.u32 %r9, %r9, 2;",
      lanes());
  CHECK(r[0] == 1);
  r = run_warp("redux.sync.add.s32 %r1, %r0, -1; redux.sync.max.u32 %r2, %r0, -1; mad.lo.u32 %r9, %r2, 1000, %r1;",
               lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == 31 * 1000 + 496);
  r = run_warp("and.b32 %r1, %r0, 3; match.any.sync.b32 %r9, %r1, -1;", lanes());
  CHECK(r[1] == 0x22222222);
  r = run_warp(
      "elect.sync %r1|%p1, -1; selp.u32 %r9, 1, 0, %p1; activemask.b32 %r2; shr.u32 %r2, %r2, 31; add.u32 %r9, %r9, "
      "%r2;",
      lanes());
  CHECK(r[0] == 2);
  CHECK(r[5] == 1);
  r = run_warp(
      "setp.lt.u32 %p1, %r0, 4; mov.u32 %r9, 7; @!%p1 bra OVER; shfl.sync.bfly.b32 %r9, %r0, 1, 31, 0xf; OVER:",
      lanes());
  CHECK(r[2] == 3);
  CHECK(r[4] == 7);
  r = run_warp(
      "mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; bar.warp.sync -1;"
      "xor.b32 %r2, %r2, 124; add.u32 %r2, %r2, tile; ld.shared.u32 %r9, [%r2];",
      lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == 31 - i);
}

TEST_CASE("ptx: ldmatrix hands rows of 16 bytes to lanes") {
  // Lane i stores {2 i, 2 i + 1} as 16-bit elements: a matrix of 8 rows of 8.
  const std::string fill =
      "shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, tile; mul.lo.u32 %r3, %r0, 0x20002; add.u32 %r3, %r3, 0x10000;"
      "st.shared.u32 [%r2], %r3; bar.warp.sync -1; and.b32 %r1, %r0, 7; shl.b32 %r1, %r1, 4; add.u32 %r1, %r1, tile;";
  std::vector<uint32_t> r = run_warp(fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r1];", lanes());
  for (uint32_t i = 0; i < 32; ++i) CHECK(r[i] == ((2 * i + 1) << 16 | 2 * i));
  r = run_warp(fill + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r9}, [%r1];", lanes());
  for (uint32_t i = 0; i < 32; ++i) {  // lane i has column i / 4 of rows 2 (i % 4) and + 1
    const uint32_t row = i % 4 * 2, column = i / 4;
    CHECK(r[i] == (((row + 1) * 8 + column) << 16 | (row * 8 + column)));
  }
  r = run_warp(fill + "movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r3;", lanes());
  CHECK(r[1] == ((3 * 8 + 0) << 16 | (2 * 8 + 0)));
}

TEST_CASE("ptx: matrix products of every element type") {
  // Each a has one row of values 1 2 3 … along k in row 0 (lanes 0 to 3) and zeros elsewhere; b is all ones: d[0][*]
  // is their sum.
  const auto product = [](const std::string& opcode, int a, int b, uint32_t ones, const std::vector<uint32_t>& row0,
                          bool integer) {
    std::string code, as, bs;
    for (int i = 0; i < a; ++i) as += fmt::format("{}%a{}", i ? ", " : "", i);
    for (int i = 0; i < b; ++i) bs += fmt::format("{}%b{}", i ? ", " : "", i);
    code = fmt::format(".reg .b32 %a<4>;\n.reg .b32 %b<4>;\n.reg .b32 %c<4>;\n");
    for (int i = 0; i < a; ++i) code += fmt::format("mov.b32 %a{}, 0;\n", i);
    for (int i = 0; i < b; ++i) code += fmt::format("mov.b32 %b{}, {:#x};\n", i, ones);
    for (int lane = 0; lane < 4; ++lane) {
      code += fmt::format("setp.eq.u32 %p1, %r0, {};\n", lane);
      // Rows 0 to 7 are in registers 0 and 2 of a (the only one of a small k).
      code += fmt::format("@%p1 mov.b32 %a0, {:#x};\n", row0[static_cast<size_t>(lane)]);
      if (a == 4) code += fmt::format("@%p1 mov.b32 %a2, {:#x};\n", row0[static_cast<size_t>(lane)]);
    }
    code += fmt::format("mov.b32 %c0, {:#x};\n", integer ? 100u : as_bits(100.0f));
    code += fmt::format("{} {{%c0, %c1, %c2, %c3}}, {{{}}}, {{{}}}, {{%c0, %c0, %c0, %c0}};\nmov.b32 %r9, %c0;", opcode,
                        as, bs);
    return run_warp(code, lanes());
  };
  const auto check = [](const std::vector<uint32_t>& r, uint32_t sum, uint32_t zero) {
    for (size_t lane = 0; lane < 32; ++lane) CHECK(r[lane] == (lane < 4 ? sum : zero));
  };
  const uint32_t base = as_bits(100.0f);
  // 16-bit: two k per register, the same values in both halves of k.
  check(product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 0x3f803f80, {0x40003f80, 0, 0x40403f80, 0},
                false),
        as_bits(100 + 2 * (1 + 2 + 1 + 3)), base);
  check(product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 0x3c003c00, {0x40003c00, 0, 0, 0xbc003c00},
                false),
        as_bits(100 + 2 * 3), base);
  check(product("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 0x3f803f80, {0x40003f80, 0, 0, 0}, false),
        as_bits(103), base);
  check(product("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, as_bits(1.0f),
                {as_bits(5.0f), 0, as_bits(-2.0f), 0}, false),
        as_bits(106), base);
  check(product("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 0x01010101, {0xff020304, 0, 0, 0x00000001},
                true),
        100 + 2 * 9, 100);
  check(product("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 4, 2, 0x01010101, {0xff020304, 0, 0, 0}, true),
        100 + 2 * 264, 100);
  check(product("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 4, 2, 0x11111111, {0xf0000021, 0, 0, 0}, true),
        100 + 2 * 2, 100);
  check(product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 0x38383838, {0x00004038, 0, 0, 0}, false),
        as_bits(106), base);
  check(product("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 4, 2, 0x3c3c3c3c, {0x0000403c, 0, 0, 0}, false),
        as_bits(106), base);
}

TEST_CASE("ptx: a missing opcode is named with its line") {
  auto kernel = load_kernel(std::string(kHead) +
                            ".visible .entry k()\n{\n.reg .b32 %r<2>;\nfrobnicate.sync.s32 %r1, 3;\nret;\n}\n");
  REQUIRE_FALSE(kernel.ok());
  CHECK(kernel.error().message.find("frobnicate_sync") != std::string::npos);
  CHECK(kernel.error().message.find("k.ptx:7") != std::string::npos);
  auto unreadable = load_kernel(std::string(kHead) + ".visible .entry k()\n{\n.reg .b32 %r<2>;\nadd.s32 %r1, 3\n}\n");
  REQUIRE_FALSE(unreadable.ok());
  CHECK(unreadable.error().where == "PTX line 8");
}
