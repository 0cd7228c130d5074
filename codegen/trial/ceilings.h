// Ceilings: what this machine can do at best, measured in the run that quotes it, and what that means for a Problem.
//
// Why here: the tuner reports shares of a roofline and drops candidates that cannot win; `bench` prints both.
//
//   const Ceilings ceilings = measure_ceilings(Isa::avx512, threads);
//   share = roofline_seconds(problem, m, ceilings) / median_s;
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "codegen/gemm/problem.h"
#include "codegen/gemm/schedules.h"
#include "codegen/kernel/target.h"
#include "codegen/trial/timing.h"
#include "runtime/threads.h"

namespace qcg {

struct Ceilings {
  int threads = 1;
  double read_gbps = 0;                                   // cold, huge pages, prefetched
  double peak_gflops_f32 = 0;                             // FMA
  double peak_gflops_bf16 = 0;                            // best of bf16 dot, FMA, AMX
  double peak_gops_int8 = 0;                              // best of VNNI, AMX, or what the ISA has
  double peak_gflops_float8 = 0;                          // of devices that multiply 8-bit floats
  std::map<std::string_view, double> instruction_gflops;  // of each Compute (gemm/microkernels.h) that is measured
  Isa isa = Isa::portable;                                // whose instructions these are
};

// The time of one execution that a ceiling is computed from: where most were disturbed, the fastest are nearer to the
// truth.
inline double ceiling_s(const Timing& timing) { return is_disturbed(timing) ? timing.p10_s : timing.median_s; }

Ceilings measure_ceilings(Isa isa, int threads);  // about 0.3 s, once in a process
// What is measured there, once: every byte read, or one instruction for some 0.1 ms; the latter says how many operations
// that was, 0 for a Compute that is not measured.
void read_once(ThreadPool& pool, std::span<const std::byte> bytes);
double multiply_once(ThreadPool& pool, Isa isa, std::string_view compute);
// The same by the calling thread alone.
void read_alone(std::span<const std::byte> bytes);
double multiply_alone(Isa isa, std::string_view compute);

// The measured instruction that multiplies a problem fastest. Where it multiplies slices, its rate is divided by their
// number. No name if none was measured.
struct Fastest {
  std::string_view compute;
  double gflops = 0;
};
Fastest fastest_compute(const Problem& problem, const Ceilings& ceilings);
// What is read and written once: weights (`packed` bytes), activations, outputs.
double bytes_moved(const Problem& problem, int64_t m, int64_t packed);
// `packed`: bytes of the weights.
double roofline_seconds(const Problem& problem, int64_t m, int64_t packed, const Ceilings& ceilings);
double roofline_seconds(const Problem& problem, int64_t m, const Ceilings& ceilings);  // packed for the CPU

// What no kernel is faster than: reading what is read once, and the multiplications. They overlap, but not wholly.
struct Floors {
  double read_s = 0, multiply_s = 0;
  double longer_s() const { return std::max(read_s, multiply_s); }
  double likely_s() const { return longer_s() + std::min(read_s, multiply_s) / 2; }
};
// Those of one schedule, by the instruction it multiplies with; nothing if that was not measured.
std::optional<Floors> floors_of(const Problem& problem, int64_t m, const GemmSchedule& schedule,
                                const Ceilings& ceilings);

}  // namespace qcg
