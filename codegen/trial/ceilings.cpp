// The peaks run from registers with 12 to 24 independent chains, in inline assembly so that no compiler can help or
// hurt. Those of AMX load their tiles.
#include "codegen/trial/ceilings.h"

#include <emmintrin.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/shape.h"
#include "runtime/memory.h"

namespace qcg {

namespace {

constexpr int kReadRounds = 8;
// A round takes 1 ms. Another process may take a core for 100 ms: the loops take turns, so that it slows all of them or
// none. Candidates are chosen by the ratios of these peaks. A turn is long enough for the clock to settle.
constexpr int kPeakTurns = 8, kPeakRounds = 8;
constexpr int64_t kPeakIterations = 15'000;
constexpr int kPieces = 8;  // of a round, per thread: a worker that wakes late still finds work and stays awake

double read_gbps(ThreadPool& pool) {
  // Beyond the last-level cache, where every round finds it cold.
  const int64_t bytes = std::clamp<int64_t>(this_machine().l3_bytes * 3 / 2, int64_t{256} << 20, int64_t{640} << 20);
  auto block = AlignedBuffer::allocate(bytes);
  if (!block.ok()) return 0;
  std::memset(block->data(), 1, static_cast<size_t>(bytes));
  // The best round: each is long, and what disturbs it is no property of the memory.
  double best_s = HUGE_VAL;
  for (int round = 0; round < kReadRounds; ++round) {
    const double start = now_s();
    read_once(pool, {block->data(), static_cast<size_t>(bytes)});
    best_s = std::min(best_s, now_s() - start);
  }
  return static_cast<double>(bytes) / best_s / 1e9;
}

// Registers keep what ran before, and arithmetic on a leftover that happens to be denormal is a hundred times slower.
#define QCG_CLOBBERS                                                                                                  \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"
#define QCG_MORE_CLOBBERS \
  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"

#define QCG_ON(instruction, reg, i) instruction " %%" reg "14, %%" reg "15, %%" reg #i "\n"
// clang-format off
#define QCG_ON_0_TO_11(instruction, reg)                                                                              \
  QCG_ON(instruction, reg, 0) QCG_ON(instruction, reg, 1) QCG_ON(instruction, reg, 2) QCG_ON(instruction, reg, 3)     \
  QCG_ON(instruction, reg, 4) QCG_ON(instruction, reg, 5) QCG_ON(instruction, reg, 6) QCG_ON(instruction, reg, 7)     \
  QCG_ON(instruction, reg, 8) QCG_ON(instruction, reg, 9) QCG_ON(instruction, reg, 10) QCG_ON(instruction, reg, 11)
#define QCG_ON_16_TO_27(instruction, reg)                                                                             \
  QCG_ON(instruction, reg, 16) QCG_ON(instruction, reg, 17) QCG_ON(instruction, reg, 18) QCG_ON(instruction, reg, 19) \
  QCG_ON(instruction, reg, 20) QCG_ON(instruction, reg, 21) QCG_ON(instruction, reg, 22) QCG_ON(instruction, reg, 23) \
  QCG_ON(instruction, reg, 24) QCG_ON(instruction, reg, 25) QCG_ON(instruction, reg, 26) QCG_ON(instruction, reg, 27)
// clang-format on

// A function that repeats one instruction over independent accumulators, in named registers so that they stay put:
// twelve of 16, 24 of 32. A bf16 dot product takes six cycles and two start at a time: with only twelve accumulators,
// one in twelve is lost.
#define QCG_PEAK_256(name, instruction, tgt)                                                                        \
  __attribute__((target(tgt))) void name(int) {                                                                     \
    asm volatile("vzeroall" ::: QCG_CLOBBERS);                                                                      \
    for (int64_t i = 0; i < kPeakIterations; ++i) asm volatile(QCG_ON_0_TO_11(instruction, "ymm")::: QCG_CLOBBERS); \
  }
// clang-format off
#define QCG_PEAK_512(name, instruction, tgt)                                                        \
  __attribute__((target("avx512f," tgt))) void name(int) {                                          \
    asm volatile("vzeroall\n" QCG_ON_16_TO_27("vpxord", "zmm")::: QCG_CLOBBERS, QCG_MORE_CLOBBERS); \
    for (int64_t i = 0; i < kPeakIterations / 2; ++i)                                               \
      asm volatile(QCG_ON_0_TO_11(instruction, "zmm") QCG_ON_16_TO_27(instruction, "zmm")::         \
                       : QCG_CLOBBERS, QCG_MORE_CLOBBERS);                                          \
  }
// clang-format on

// clang-format off
QCG_PEAK_512(peak_f32_512, "vfmadd231ps", "avx512f")
QCG_PEAK_512(peak_bf16_512, "vdpbf16ps", "avx512bf16")
QCG_PEAK_512(peak_int8_512, "vpdpbusd", "avx512vnni")
QCG_PEAK_256(peak_f32_256, "vfmadd231ps", "avx2,fma")
QCG_PEAK_256(peak_madd_256, "vpmaddwd", "avx2")
QCG_PEAK_256(peak_int8_256, "%{vex%} vpdpbusd", "avx2,avxvnni")
// clang-format on

void peak_f32_128(int) {
  asm volatile(
      "xorps %%xmm0, %%xmm0\nxorps %%xmm1, %%xmm1\nxorps %%xmm2, %%xmm2\nxorps %%xmm3, %%xmm3\n"
      "xorps %%xmm4, %%xmm4\nxorps %%xmm5, %%xmm5\nxorps %%xmm6, %%xmm6\nxorps %%xmm7, %%xmm7\n"
      "xorps %%xmm8, %%xmm8\nxorps %%xmm9, %%xmm9\nxorps %%xmm10, %%xmm10\nxorps %%xmm11, %%xmm11\n"
      "xorps %%xmm14, %%xmm14\nxorps %%xmm15, %%xmm15\n" ::
          : QCG_CLOBBERS);
  for (int64_t i = 0; i < kPeakIterations; ++i)
    asm volatile(
        "mulps %%xmm14, %%xmm0\naddps %%xmm15, %%xmm1\nmulps %%xmm14, %%xmm2\naddps %%xmm15, %%xmm3\n"
        "mulps %%xmm14, %%xmm4\naddps %%xmm15, %%xmm5\nmulps %%xmm14, %%xmm6\naddps %%xmm15, %%xmm7\n"
        "mulps %%xmm14, %%xmm8\naddps %%xmm15, %%xmm9\nmulps %%xmm14, %%xmm10\naddps %%xmm15, %%xmm11\n" ::
            : QCG_CLOBBERS);
}

__attribute__((target("amx-tile"))) void configure_tiles() {
  struct alignas(64) Config {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t colsb[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) config.colsb[i] = 64, config.rows[i] = 16;
  asm volatile("" ::"r"(&config) : "memory");  // g++ 12 drops the stores otherwise
  _tile_loadconfig(&config);
}

// Kernels load tiles for every product, so the peak includes the loads. Results are 16 x 32, activations lie in L2 and
// weights in L1, as in kernels of 16 rows.
constexpr int kTileSteps = 128;  // steps of K until activations repeat, 1 KiB each
constexpr int kWeightSteps = 8;  // steps of K until weights repeat, 2 KiB each
const uint8_t* tile_operands() {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  static const std::vector<Line> zeros((kTileSteps + 2 * kWeightSteps) * 16);
  return zeros[0].bytes;
}

#define QCG_PEAK_AMX(name, multiply, tgt)                                        \
  __attribute__((target(tgt))) void name(int) {                                  \
    const uint8_t* const operands = tile_operands();                             \
    configure_tiles();                                                           \
    for (int64_t i = 0; i < kTileIterations; ++i) {                              \
      const uint8_t* const w = operands + i % kWeightSteps * 2048;               \
      _tile_loadd(4, operands + (2 * kWeightSteps + i % kTileSteps) * 1024, 64); \
      _tile_loadd(6, w, 64);                                                     \
      multiply(0, 4, 6);                                                         \
      _tile_loadd(6, w + 1024, 64);                                              \
      multiply(1, 4, 6);                                                         \
    }                                                                            \
    _tile_release();                                                             \
  }
constexpr int64_t kTileIterations = kPeakIterations / 4;
QCG_PEAK_AMX(peak_int8_amx, _tile_dpbssd, "amx-tile,amx-int8")
QCG_PEAK_AMX(peak_bf16_amx, _tile_dpbf16ps, "amx-tile,amx-bf16")

constexpr double kVectorOps = double(kPeakIterations) * 12, kTileOps = double(kTileIterations) * 2;
struct PeakLoop {
  std::string_view compute;
  Isa isa;
  void (*work)(int);
  double operations;  // of one call
};
constexpr PeakLoop kPeakLoops[] = {
    {"amx_bf16", Isa::amx, peak_bf16_amx, kTileOps * 16 * 16 * 32 * 2},
    {"amx_int8", Isa::amx, peak_int8_amx, kTileOps * 16 * 16 * 64 * 2},
    {"bf16dot", Isa::avx512bf16, peak_bf16_512, kVectorOps * 32 * 2},
    {"fma", Isa::avx512, peak_f32_512, kVectorOps * 16 * 2},
    {"vnni", Isa::avx512, peak_int8_512, kVectorOps * 64 * 2},
    {"vnni", Isa::avx2vnni, peak_int8_256, kVectorOps * 32 * 2},
    {"fma", Isa::avx2, peak_f32_256, kVectorOps * 8 * 2},
    {"madd16", Isa::avx2, peak_madd_256, kVectorOps * 16 * 2},
    {"fma", Isa::portable, peak_f32_128, kVectorOps * 4},
    {"madd16", Isa::portable, peak_f32_128, kVectorOps * 4},
};

const PeakLoop* find_loop(Isa isa, std::string_view compute) {
  for (const PeakLoop& loop : kPeakLoops)
    if (loop.compute == compute && runs_on(loop.isa, isa)) return &loop;
  return nullptr;
}

// Every thread for a while; how many operations that was.
double run(ThreadPool& pool, const PeakLoop& loop) {
  const int64_t pieces = pool.threads() * kPieces;
  pool.parallel_items(pieces, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) loop.work(static_cast<int>(i));
  });
  return static_cast<double>(pieces) * loop.operations;
}

Ceilings measure(Isa isa, int threads) {
  Ceilings c;
  ThreadPool pool({.threads = threads});
  c.isa = isa;
  c.threads = pool.threads();
  c.read_gbps = read_gbps(pool);
  struct Peak {
    std::vector<Sample> samples;
    double operations = 0;
  };
  std::array<Peak, std::size(kPeakLoops)> peaks;
  Stopwatch watch;
  for (int turn = 0; turn < kPeakTurns; ++turn)
    for (size_t i = 0; i < peaks.size(); ++i) {
      if (!runs_on(kPeakLoops[i].isa, isa)) continue;
      for (int round = 0; round < kPeakRounds; ++round)
        watch.time([&] { peaks[i].operations = run(pool, kPeakLoops[i]); }, 1, peaks[i].samples);
    }
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i].samples.empty()) continue;
    const PeakLoop& loop = kPeakLoops[i];
    // The median, as kernels are judged: the best of many rounds of a millisecond is a burst of the clock that no
    // kernel lasts for.
    const double gflops = peaks[i].operations / ceiling_s(timing_of(peaks[i].samples)) / 1e9;
    c.instruction_gflops[loop.compute] = gflops;
    double& best = compute_info(loop.compute).integer ? c.peak_gops_int8 : c.peak_gflops_bf16;
    best = std::max(best, gflops);
  }
  c.peak_gflops_f32 = c.instruction_gflops["fma"];
  return c;
}

}  // namespace

void read_alone(std::span<const std::byte> bytes) {
  __m128i sum = _mm_setzero_si128();
  for (int64_t i = 0; i + 64 <= std::ssize(bytes); i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes.data()) + i + 2048, _MM_HINT_T0);
    const auto* line = reinterpret_cast<const __m128i*>(bytes.data() + i);
    const __m128i a = _mm_xor_si128(_mm_loadu_si128(line), _mm_loadu_si128(line + 1));
    const __m128i b = _mm_xor_si128(_mm_loadu_si128(line + 2), _mm_loadu_si128(line + 3));
    sum = _mm_xor_si128(sum, _mm_xor_si128(a, b));
  }
  asm volatile("" ::"x"(sum));
}

void read_once(ThreadPool& pool, std::span<const std::byte> bytes) {
  const int64_t pieces = pool.threads() * kPieces, part = std::ssize(bytes) / pieces / 256 * 256;
  pool.parallel_items(pieces, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      read_alone(bytes.subspan(size_t(i * part), size_t(i + 1 < pieces ? part : std::ssize(bytes) - i * part)));
  });
}

double multiply_once(ThreadPool& pool, Isa isa, std::string_view compute) {
  const PeakLoop* loop = find_loop(isa, compute);
  return loop != nullptr ? run(pool, *loop) : 0;
}

double multiply_alone(Isa isa, std::string_view compute) {
  const PeakLoop* loop = find_loop(isa, compute);
  if (loop == nullptr) return 0;
  loop->work(0);
  return loop->operations;
}

Ceilings measure_ceilings(Isa isa, int threads) {
  static std::mutex mutex;
  static std::map<std::pair<Isa, int>, Ceilings> measured;  // a fact of this process's machine, not of any input
  std::lock_guard lock(mutex);
  auto [it, is_new] = measured.try_emplace({isa, threads});
  if (is_new) it->second = measure(isa, threads);
  return it->second;
}

double bytes_moved(const Problem& problem, int64_t m, int64_t packed) {
  double bytes = static_cast<double>(packed);
  bytes += static_cast<double>(m * problem.k) * static_cast<double>(dtype_bytes(problem.activation));
  for (const Output& output : problem.outputs)
    bytes += static_cast<double>(m * output.n) * static_cast<double>(dtype_bytes(output.dtype));
  return bytes;
}

namespace {

int64_t packed_on_cpu(const Problem& problem, Isa isa) {
  return packed_bytes(problem, layout_for(problem, {Device::cpu, isa}));
}

// Streaming what is read and written once, and multiplying at `gflops`.
Floors floors(const Problem& problem, int64_t m, int64_t packed, const Ceilings& c, double gflops) {
  return {bytes_moved(problem, m, packed) / (c.read_gbps * 1e9),
          gflops > 0 ? problem.operations(m) / (gflops * 1e9) : 0};
}

}  // namespace

namespace {

// By the clock of the device: integers, 8-bit floats, others that tensor cores multiply as 16-bit floats, f32.
double fastest_on_device(const Problem& problem, const Ceilings& c) {
  if (is_integer(problem)) return c.peak_gops_int8;
  if (is_float8(problem.activation)) return c.peak_gflops_float8 > 0 ? c.peak_gflops_float8 : c.peak_gflops_f32;
  return problem.activation == DType::f32 ? c.peak_gflops_f32 : c.peak_gflops_bf16;
}

}  // namespace

Fastest fastest_compute(const Problem& problem, const Ceilings& c) {
  if (on_device(c.isa)) return {"", fastest_on_device(problem, c)};
  Fastest fastest;
  for (const Microkernel& row : microkernel_table())
    if (const auto rate = c.instruction_gflops.find(row.compute);
        rate != c.instruction_gflops.end() && serves(row, problem))
      if (const double gflops = rate->second / slices_of(row); gflops > fastest.gflops) fastest = {rate->first, gflops};
  if (fastest.gflops == 0) fastest.gflops = is_integer(problem) ? c.peak_gops_int8 : c.peak_gflops_f32;
  return fastest;
}

double roofline_seconds(const Problem& problem, int64_t m, int64_t packed, const Ceilings& c) {
  return c.read_gbps > 0 ? floors(problem, m, packed, c, fastest_compute(problem, c).gflops).longer_s() : 0;
}
double roofline_seconds(const Problem& problem, int64_t m, const Ceilings& c) {
  return c.read_gbps > 0 ? roofline_seconds(problem, m, packed_on_cpu(problem, c.isa), c) : 0;
}

std::optional<Floors> floors_of(const Problem& problem, int64_t m, const GemmSchedule& schedule, const Ceilings& c) {
  const auto rate = c.instruction_gflops.find(schedule.microkernel->compute);
  if (c.read_gbps <= 0 || rate == c.instruction_gflops.end()) return {};
  // Tiles are loaded whole however few of their rows there are, and loads are most of a product's time.
  const bool tiles = compute_info(schedule.microkernel->compute).tiles;
  const double full = tiles ? double(m) / double((m + 15) / 16 * 16) : 1;
  return floors(problem, m, packed_on_cpu(problem, c.isa), c, rate->second * full / slices_of(*schedule.microkernel));
}

}  // namespace qcg
