#include "codegen/cuda/model.h"

#include <algorithm>
#include <cmath>

namespace qcg {
namespace {

// Data sheets and published measurements (H200, A100); latency is that of global memory.
struct ModeledDevice {
  double sms, clock_hz, memory_Bps, l2_Bps, latency_s, shared_bytes;
  double mma_cycles;    // a tensor core is busy with one m16n8k16 of 16-bit floats
  double wgmma_cycles;  // with as much of a wgmma
};
constexpr ModeledDevice kHopper{132, 1.755e9, 4.3e12, 10.8e12, 800e-9, 227 << 10, 7.5, 4.2};
constexpr ModeledDevice kAmpere{108, 1.41e9, 1.75e12, 4.5e12, 600e-9, 164 << 10, 8, 0};
// MI210: an instruction of 16 cycles multiplies twice as many rows (ISA, section 7).
constexpr ModeledDevice kCdna2{104, 1.7e9, 1.4e12, 4e12, 800e-9, 64 << 10, 16, 0};
constexpr double kLaunch_s = 2.5e-6;
// Measured on an H200: what the copying warps of a wgmma kernel take for 512 bytes, and for 16 columns in bulk.
constexpr double kCopyCycles = 12, kBulkCycles = 100;
// A block that begins and stores its tile, while nothing is multiplied.
constexpr double kBlock_s = 0.8e-6, kElement_s = 2.8e-10, kDecodeBlock_s = 0.5e-6;
constexpr double kDecodeLoad = 6;      // instructions that reading 8 rows of x from L1 is worth
constexpr double kIntegerScaling = 2;  // instructions, for one of floats, that scale an exact sum of integers

// Instructions that unpack 16 x 16 weights.
double unpack_instructions(const CudaForm& form) {
  if (form.name == "whole") return 0;
  if (form.is_integer()) return 6;
  if (form.parts > 1) return 24 * form.parts;
  return form.scheme == Scheme::w4 ? 11 : form.scheme == Scheme::w8 ? 14 : 20;
}

double blocks_of(const Problem& p, const CudaSchedule& s, int64_t m) {
  const CudaLaunch launch = cuda_launch(p, s);
  return static_cast<double>(launch.blocks({&m, 1})) * launch.column_tiles;
}

// Of one block, in one turn of bk: instructions of a warp, bytes from global memory or L2.
struct Turn {
  double instructions, mma, bytes, shared_bytes;
};
Turn turn_of(const Problem& p, const CudaLayout& l, const CudaSchedule& s) {
  const double segments = most_segments(p), k_tiles = static_cast<double>(s.bk) / l.form->mma_k;
  const double w_tiles = segments * s.bn / 16.0 / s.warps_n, x_tiles = s.bm / 8.0 / s.warps_m;  // of a warp
  Turn t{};
  t.mma = k_tiles * w_tiles * x_tiles * l.form->parts;
  const double products = s.is_wgmma() ? k_tiles * w_tiles : t.mma;  // instructions: a wgmma has all rows of x
  const double w_loads = l.in_rows && s.is_wgmma() ? 0 : k_tiles * w_tiles * l.form->words() / 4.0;
  const double x_load = !s.is_decode() ? 0.5 : s.microkernel->isa == Isa::sm_90a ? kDecodeLoad : 2;
  const double x_loads = s.is_wgmma() ? 0 : k_tiles * x_load * x_tiles;
  // k whose sums are apart: of a group, or of 8-bit floats.
  const int64_t span = l.group_padded ? std::min<int64_t>(l.group_padded, s.bk) : l.form->float8 ? s.bk : 0;
  const double scaling =
      span ? t.mma * 4.0 * l.form->mma_k / static_cast<double>(span) * (l.form->is_integer() ? kIntegerScaling : 1.0)
           : 0;
  t.instructions = products + k_tiles * w_tiles * unpack_instructions(*l.form) + w_loads + x_loads + scaling + 24;
  const double w_bytes = segments * s.bn * s.bk * l.form->bits / 8.0, x_bytes = s.bm * s.bk * 16.0 / l.form->mma_k;
  t.bytes = w_bytes + x_bytes;
  const double x_reads = s.is_wgmma() ? s.warps_n / 4.0 : s.warps_n;  // four warps read x once
  t.shared_bytes = s.is_decode() ? 0 : t.bytes + w_bytes * s.warps_m + x_bytes * x_reads;
  return t;
}

}  // namespace

double modeled_seconds(const Problem& p, const CudaLayout& l, const CudaSchedule& s, Isa isa, int64_t m) {
  const ModeledDevice& d = isa == Isa::sm_90a ? kHopper : isa == Isa::gfx90a ? kCdna2 : kAmpere;
  const Turn t = turn_of(p, l, s);
  const double warps = s.multiplying_threads() / static_cast<double>(s.lanes()),
               shared = std::max(1, cuda_launch(p, s).shared_bytes);
  const double resident = s.is_wgmma() ? 1 : std::clamp(std::min(d.shared_bytes / shared, 16 / warps), 1.0, 16.0);
  const double blocks = std::max(1.0, blocks_of(p, s, m));
  const double live = std::min(resident, std::max(1.0, blocks / d.sms));  // blocks of a multiprocessor that has work
  const double turns = static_cast<double>(l.k_padded) / s.bk / s.warps_k;
  const double schedulers = live * warps / 4;
  const double in_flight = live * t.bytes * (s.is_decode() ? s.warps_k : s.stages - 1);
  const double work = live * (s.is_decode() ? s.warps_k : 1);  // turns under way
  const double mma_cycles = s.is_wgmma() ? d.wgmma_cycles : d.mma_cycles;
  double cycles = std::max(t.mma * mma_cycles * schedulers, t.instructions * std::max(schedulers, 1.0));
  cycles = std::max(cycles, live * t.shared_bytes / 128);
  // Four warps that unpack have no others that multiply meanwhile.
  if (s.is_wgmma() && !l.in_rows && s.bn == 64) cycles = t.mma * mma_cycles * schedulers + t.instructions;
  if (s.is_wgmma()) {
    const double in_bulk = most_segments(p) * s.bn / 16.0 * kBulkCycles, by_threads = t.bytes / 512 * kCopyCycles;
    cycles = std::max(cycles, copies_in_bulk(s) ? in_bulk : by_threads);
  }
  const double seconds =
      std::max({cycles / d.clock_hz, work * t.bytes / (d.l2_Bps / d.sms), work * t.bytes / in_flight * d.latency_s});
  const double waves = s.is_wgmma() ? std::ceil(blocks / d.sms) : std::max(1.0, blocks / (d.sms * live));
  double block_s = 0;  // on other devices it is not known
  if (isa == Isa::sm_90a && s.is_decode()) block_s = kDecodeBlock_s;
  else if (isa == Isa::sm_90a) block_s = (kBlock_s + s.bm * s.bn * kElement_s) / (s.is_wgmma() ? 1 : live);
  const double bytes = static_cast<double>(l.bytes) + static_cast<double>(m * p.k) * 2;
  // The two overlap, not perfectly: among schedules that memory bounds, that with the least other work comes first.
  const double inside = waves * (turns * seconds + block_s), outside = bytes / d.memory_Bps;
  return std::max(inside, outside) + 0.1 * std::min(inside, outside) + kLaunch_s;
}

}  // namespace qcg
