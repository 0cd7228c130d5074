// Opcodes of the PTX executor that a whole CTA takes part in: barriers, asynchronous copies, tensor maps, wgmma.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "tests/cuda/ptx/executor.h"
#include "tests/cuda/ptx/floats.h"

using namespace qcg;
using namespace qcg::ptx;

namespace {

struct CtaRun {
  Outcome outcome;
  std::vector<uint32_t> words;  // one per thread, from %r9; then as many that bulk stores may write
};

// `threads` threads run `code`; thread i finds word 3 i + 1 at [%d0]. Tensor maps: `from` reads the input as 10 rows
// of 24 elements of 16 bits, 64 bytes apart; `to` is the second half of the output as 8 rows of 16. Both have boxes
// of 8 x 16.
CtaRun run_cta(const std::string& code, uint32_t threads) {
  auto kernel = load_kernel(
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry cta(.param .u64 in, .param .u64 out, .param .align 64 .b8 from[128], .param .align 64 .b8 "
      "to[128])\n{\n"
      ".reg .pred %p<10>;\n.reg .b32 %r<20>;\n.reg .b64 %d<20>;\n"
      ".shared .align 1024 .b8 tile[2048];\n.shared .align 8 .b8 bar[16];\n"
      "mov.u32 %r0, %tid.x;\nld.param.u64 %d0, [in];\nld.param.u64 %d1, [out];\nmul.wide.u32 %d2, %r0, 4;\n"
      "add.u64 %d0, %d0, %d2;\nadd.u64 %d1, %d1, %d2;\nmov.u32 %r9, 0;\nsetp.eq.u32 %p0, %r0, 0;\nshl.b32 %r1, %r0, "
      "2;\n"
      "add.u32 %r1, %r1, tile;\n" +
      code + "\nst.global.u32 [%d1], %r9;\nret;\n}\n");
  REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
  std::vector<uint8_t> words(4096);
  for (uint32_t i = 0; i < 1024; ++i) {
    const uint32_t word = 3 * i + 1;
    std::memcpy(words.data() + i * 4, &word, 4);
  }
  GlobalMemory memory = kernel->memory();
  const uint64_t in = memory.add("in", words, Access::input).address;
  const uint64_t out = memory.add("out", std::vector<uint8_t>(threads * 8), Access::in_out).address;
  TensorMap from, to;
  from.dimensions = to.dimensions = 2;
  from.element_bytes = to.element_bytes = 2;
  from.swizzle_bytes = to.swizzle_bytes = 32;
  from.box[0] = to.box[0] = 16, from.box[1] = to.box[1] = 8;
  from.address = in, from.sizes[0] = 24, from.sizes[1] = 10, from.stride_bytes[0] = 64;
  to.address = out + threads * 4, to.sizes[0] = 16, to.sizes[1] = 8, to.stride_bytes[0] = 32;
  CtaRun run;
  run.outcome =
      kernel->run({.block = {threads, 1, 1}}, memory, {argument(in), argument(out), argument(from), argument(to)});
  run.words.resize(threads * 2);
  std::memcpy(run.words.data(), memory.buffers().back().bytes.data(), threads * 8);
  return run;
}

void expect_words(const std::string& code, uint32_t threads, const std::function<uint32_t(uint32_t)>& word,
                  uint32_t first = 0) {
  const CtaRun run = run_cta(code, threads);
  INFO(code);
  REQUIRE_MESSAGE(run.outcome.ok(), run.outcome.text());
  for (uint32_t i = 0; i < threads; ++i) CHECK(run.words[first + i] == word(i));
}

void expect_fault(const std::string& code, uint32_t threads, FaultKind kind) {
  const CtaRun run = run_cta(code, threads);
  INFO(code, "\n", run.outcome.text());
  REQUIRE_FALSE(run.outcome.ok());
  CHECK(std::string(fault_name(run.outcome.fault->kind)) == fault_name(kind));
}

const std::string kInitBarrier =
    "@%p0 mbarrier.init.shared::cta.b64 [bar], 64; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;";
const std::string kWaitBarrier = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra WAIT;";
// The word that thread 63 - i put into the tile.
const std::string kReadMirrored =
    "xor.b32 %r2, %r0, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, tile; ld.shared.u32 %r9, [%r2];";

uint32_t encode_element(Element e, int v) {
  switch (e) {
    case Element::bf16: return to_bf16(static_cast<float>(v));
    case Element::f16: return encode_float(kF16, v, Rounding::even);
    case Element::e4m3: return encode_float(kE4m3, v, Rounding::even);
    case Element::e5m2: return encode_float(kE5m2, v, Rounding::even);
    case Element::tf32: return as_bits(static_cast<float>(v));
    default: return static_cast<uint32_t>(v) & 255;
  }
}

// d[64][8] = a . b^T + 1, a[64][k] and b[8][k] of 32 bytes of small integers per row. Without a swizzle: 8 rows of 16
// bytes are adjacent, the other half of k follows 128 bytes later, the next rows 256 bytes later.
void check_wgmma(const std::string& types, Element e, bool a_in_registers) {
  const uint32_t bytes = static_cast<uint32_t>(element_bits(e)) / 8, depth = 32 / bytes;
  const bool integer = e == Element::s8;
  const auto value = [](uint32_t row, uint32_t k, uint32_t salt) {
    return static_cast<int>((row * 7 + k * 5 + salt) % 5) - 2;
  };
  std::vector<uint8_t> a(2048), b(256);
  const auto put = [&](std::vector<uint8_t>& to, uint32_t row, uint32_t k, int v, bool in_rows) {
    const uint32_t at = k * bytes, word = encode_element(e, v);
    const uint32_t offset = in_rows ? row * 32 + at : row / 8 * 256 + at / 16 * 128 + row % 8 * 16 + at % 16;
    std::memcpy(to.data() + offset, &word, bytes);
  };
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t row = 0; row < 64; ++row) put(a, row, k, value(row, k, 1), a_in_registers);
    for (uint32_t row = 0; row < 8; ++row) put(b, row, k, value(row, k, 3), false);
  }
  const bool half = bytes == 2;
  const std::string immediates = integer ? "" : half ? (a_in_registers ? ", 1, 1, 0" : ", 1, 1, 0, 0") : ", 1, 1";
  const std::string load =
      a_in_registers
          // Lane l of warp w has rows 16 w + l / 4 and + 8, bytes 4 (l % 4) and + 16.
          ? "shr.u32 %r1, %r0, 5; shl.b32 %r1, %r1, 4; bfe.u32 %r2, %r0, 2, 3; add.u32 %r1, %r1, %r2; shl.b32 %r1, "
            "%r1, 5;"
            "and.b32 %r2, %r0, 3; mad.lo.u32 %r1, %r2, 4, %r1; cvt.u64.u32 %d4, %r1; add.u64 %d4, %d4, %d0;"
            "ld.global.u32 %a0, [%d4]; ld.global.u32 %a1, [%d4+256]; ld.global.u32 %a2, [%d4+16]; ld.global.u32 %a3, "
            "[%d4+272];\n"
          : "shl.b32 %r1, %r0, 4; cvt.u64.u32 %d4, %r1; add.u64 %d4, %d4, %d0; ld.global.v4.u32 {%a0, %a1, %a2, %a3}, "
            "[%d4];"
            "add.u32 %r1, %r1, tile; st.shared.v4.u32 [%r1], {%a0, %a1, %a2, %a3};\n";
  auto kernel = load_kernel(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry product(.param .u64 a, .param .u64 b, .param "
      ".u64 out)\n{\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<10>;\n.reg .b32 %a<4>;\n.reg .b32 %c<4>;\n.reg .b64 %d<10>;\n.shared .align "
      "1024 .b8 tile[2304];\n"
      "mov.u32 %r0, %tid.x;\nld.param.u64 %d0, [a];\nld.param.u64 %d1, [b];\nld.param.u64 %d2, [out];\n" +
      load +
      "setp.lt.u32 %p0, %r0, 64; mul.wide.u32 %d4, %r0, 4; add.u64 %d1, %d1, %d4; shl.b32 %r2, %r0, 2; add.u32 %r2, "
      "%r2, tile;\n"
      "@%p0 ld.global.u32 %r3, [%d1]; @%p0 st.shared.u32 [%r2+2048], %r3;\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n" +
      fmt::format("mov.b32 %c0, {0}; mov.b32 %c1, {0}; mov.b32 %c2, {0}; mov.b32 %c3, {0};\n",
                  integer ? 1u : as_bits(1.0f)) +
      "mov.u32 %r4, tile; shr.u32 %r4, %r4, 4; cvt.u64.u32 %d5, %r4; or.b64 %d5, %d5, 0x1000080000; add.u64 %d6, %d5, "
      "128;\n"
      "setp.eq.u32 %p1, %r0, %r0;\nwgmma.fence.sync.aligned;\n" +
      fmt::format("wgmma.mma_async.sync.aligned.m64n8k{}.{} {{%c0, %c1, %c2, %c3}}, {}, %d6, %p1{};\n", depth, types,
                  a_in_registers ? "{%a0, %a1, %a2, %a3}" : "%d5", immediates) +
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
      "shl.b32 %r5, %r0, 4; cvt.u64.u32 %d7, %r5; add.u64 %d7, %d7, %d2; st.global.v4.u32 [%d7], {%c0, %c1, %c2, "
      "%c3};\nret;\n}\n");
  INFO(types, a_in_registers ? " from registers" : " from shared memory");
  REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
  GlobalMemory memory = kernel->memory();
  const uint64_t at_a = memory.add("a", a, Access::input).address, at_b = memory.add("b", b, Access::input).address;
  const uint64_t out = memory.add("out", std::vector<uint8_t>(2048), Access::output).address;
  const Outcome outcome = kernel->run({.block = {128, 1, 1}}, memory, {argument(at_a), argument(at_b), argument(out)});
  REQUIRE_MESSAGE(outcome.ok(), outcome.text());
  for (uint32_t t = 0; t < 128; ++t)
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4 + r / 2 * 8, column = t % 4 * 2 + r % 2;
      int sum = 1;
      for (uint32_t k = 0; k < depth; ++k) sum += value(row, k, 1) * value(column, k, 3);
      uint32_t got;
      std::memcpy(&got, memory.buffers().back().bytes.data() + t * 16 + r * 4, 4);
      CHECK(got == (integer ? static_cast<uint32_t>(sum) : as_bits(static_cast<float>(sum))));
    }
}

}  // namespace

TEST_CASE("ptx: barriers of a CTA, of some warps, and with a vote") {
  expect_words("setp.lt.u32 %p1, %r0, 5; bar.red.popc.u32 %r9, 0, %p1;", 64, [](uint32_t) { return 5u; });
  expect_words("setp.eq.u32 %p1, %r0, 40; bar.red.or.pred %p2, 0, %p1; selp.u32 %r9, 1, 2, %p2;", 64,
               [](uint32_t) { return 1u; });
  // Warp 0 stores and arrives, warp 1 waits and reads.
  const std::string pass =
      "st.shared.u32 [%r1], %r0; setp.lt.u32 %p1, %r0, 32; @%p1 bar.arrive 3, 64; @%p1 bra OVER;"
      "bar.sync 3, 64;" +
      kReadMirrored + "OVER:";
  expect_words(pass, 64, [](uint32_t i) { return i < 32 ? 0 : 63 - i; });
  expect_fault("st.shared.u32 [%r1], %r0;" + kReadMirrored, 64, FaultKind::uninitialized);
  expect_fault("st.shared.u32 [%r1], %r0; bar.sync 0;" + kReadMirrored + "st.shared.u32 [%r1], 7;", 64,
               FaultKind::race);
  expect_words(
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setmaxnreg.dec.sync.aligned.u32 40; mov.u32 %r9, "
      "4;",
      128, [](uint32_t) { return 4u; });
}

TEST_CASE("ptx: cp.async ends in a wait or at an mbarrier") {
  const std::string copy = "cp.async.ca.shared.global [%r1], [%d0], 4;";
  const auto mirrored = [](uint32_t i) { return 3 * (63 - i) + 1; };
  expect_words(copy + "cp.async.wait_all; bar.sync 0;" + kReadMirrored, 64, mirrored);
  expect_words(
      kInitBarrier + copy + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];" + kWaitBarrier + kReadMirrored, 64,
      mirrored);
  expect_fault(copy + "cp.async.commit_group; bar.sync 0;" + kReadMirrored, 64, FaultKind::race);
  expect_words(kInitBarrier +
                   "st.shared.u32 [%r1], %r0; mbarrier.arrive.shared::cta.b64 %d5, [bar];"
                   "AGAIN: mbarrier.test_wait.shared::cta.b64 %p1, [bar], %d5; @!%p1 bra AGAIN;" +
                   kReadMirrored,
               64, [](uint32_t i) { return 63 - i; });
  expect_fault(kInitBarrier + "@%p0 bra OVER; mbarrier.arrive.shared::cta.b64 _, [bar]; OVER:" + kWaitBarrier, 64,
               FaultKind::deadlock);
}

TEST_CASE("ptx: bulk and tensor copies in both directions") {
  const std::string store =
      "st.shared.u32 [%r1], %r0; FENCE bar.sync 0; @!%p0 bra OVER; ld.param.u64 %d5, [out];"
      "cp.async.bulk.global.shared::cta.bulk_group [%d5+256], [tile], 256; cp.async.bulk.commit_group;"
      "cp.async.bulk.wait_group 0; OVER:";
  const auto with = [&](const std::string& fence) { return std::string(store).replace(store.find("FENCE"), 5, fence); };
  expect_words(
      with("fence.proxy.async.shared::cta;"), 64, [](uint32_t i) { return i; }, 64);
  expect_fault(with(""), 64, FaultKind::proxy);
  // A box that hangs over the tensor comes with zeros and goes out as it came.
  const std::string load =
      "@%p0 mbarrier.init.shared::cta.b64 [bar], 1; @!%p0 bra OVER; mov.b64 %d3, from; cvta.param.u64 %d3, %d3;"
      "mov.b64 %d4, to; cvta.param.u64 %d4, %d4; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d3, {16, 4}], [bar];" +
      kWaitBarrier +
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d4, {0, 0}], [tile];"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;"
      "ld.shared.u32 %r9, [tile+144]; OVER:";
  const auto element = [](uint32_t i) {
    return i / 8 + 4 < 10 && i % 8 < 4 ? 3 * ((i / 8 + 4) * 16 + 8 + i % 8) + 1 : 0;
  };
  expect_words(load, 64, element, 64);
  // Address bit 4 is changed by bit 7: the first chunk of row 4 lies in the second place.
  CHECK(run_cta(load, 64).words[0] == element(4 * 8));
}

TEST_CASE("ptx: stmatrix is the way back of ldmatrix") {
  const std::string code =
      "and.b32 %r2, %r0, 7; shl.b32 %r2, %r2, 4; add.u32 %r2, %r2, tile; mul.lo.u32 %r3, %r0, 0x20002; add.u32 %r3, "
      "%r3, 0x10000;"
      "stmatrix.sync.aligned.m8n8.x1TRANS.shared.b16 [%r2], {%r3}; bar.warp.sync -1; ld.shared.u32 %r9, [%r1];";
  const auto with = [&](const std::string& trans) { return std::string(code).replace(code.find("TRANS"), 5, trans); };
  expect_words(with(""), 32, [](uint32_t i) { return (2 * i + 1) << 16 | 2 * i; });
  expect_words(with(".trans"), 32, [](uint32_t i) {
    const auto at = [](uint32_t row, uint32_t column) { return 2 * (column * 4 + row / 2) + row % 2; };
    return at(i / 4, i % 4 * 2 + 1) << 16 | at(i / 4, i % 4 * 2);
  });
}

TEST_CASE("ptx: wgmma of every element type, from shared memory and from registers") {
  for (const bool registers : {false, true}) {
    check_wgmma("f32.bf16.bf16", Element::bf16, registers);
    check_wgmma("f32.f16.f16", Element::f16, registers);
    check_wgmma("f32.tf32.tf32", Element::tf32, registers);
    check_wgmma("f32.e4m3.e4m3", Element::e4m3, registers);
    check_wgmma("s32.s8.s8", Element::s8, registers);
  }
}
