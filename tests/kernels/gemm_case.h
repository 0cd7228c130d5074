// A Problem with a GemmSchedule to be tested, its random weights, and the shared objects that kernels are loaded from.
//
// Why here: cases are built together, a dozen kernels in one source, because starting compilers is what these tests
// cost.
//
//   std::vector<Case> cases = …;
//   build_cases(cases);                  // fills tensors, packed, source, kernel
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codegen/gemm/pack.h"
#include "codegen/gemm/render.h"
#include "graph/oracle/reference.h"
#include "runtime/abi.h"
#include "tests/isa_job.h"

namespace qcg::test {

// What the numbers of a case are: scales of a size that f32 hardly holds; or weights, zero points and 8-bit activations
// at the ends of their ranges.
enum class Numbers { ordinary, tiny_scales, huge_scales, ends };

struct Case {
  std::string what;
  Problem problem;
  Isa isa = Isa::portable;
  GemmSchedule candidate;
  uint64_t seed = 1;
  Numbers numbers = Numbers::ordinary;
  bool powers = false;  // weights are powers of two, activations small integers: no rounding anywhere
  // Filled by build_cases:
  std::vector<SegmentTensors> tensors;
  std::vector<std::byte> packed;
  std::string source;
  const qcg_kernel* kernel = nullptr;
  bool emulated = false;  // AMX tiles are arrays: this host has none
};

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high,
                            bool integers) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<std::byte> bytes(size_t(n) * dtype_bytes(dtype));
  for (int64_t i = 0; i < n; ++i) {
    double v = low + (high - low) * double(rng() >> 11) * 0x1p-53;
    if (integers || !is_floating(dtype)) v = std::floor(v + 0.5);
    std::byte* p = bytes.data() + size_t(i) * dtype_bytes(dtype);
    if (is_floating(dtype)) double_to_element(dtype, v, p);
    else int_to_element(dtype, int64_t(v), p);
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

inline Tensor ends_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, double low, double high) {
  Tensor t = random_tensor(dtype, std::move(shape), rng, 0, 0, true);
  auto* bytes = const_cast<std::byte*>(t.storage->bytes.data());
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = rng() & 1 ? low : high;
    std::byte* p = bytes + size_t(i) * dtype_bytes(dtype);
    if (is_floating(dtype)) double_to_element(dtype, v, p);
    else int_to_element(dtype, int64_t(v), p);
  }
  return t;
}

inline Tensor power_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<std::byte> bytes(size_t(n) * dtype_bytes(dtype));
  for (int64_t i = 0; i < n; ++i)
    double_to_element(dtype, std::ldexp(rng() & 1 ? 1.0 : -1.0, int(rng() % 3) - 1),
                      bytes.data() + size_t(i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

// Twice an e2m1 number each.
inline Tensor e2m1_tensor(std::vector<int64_t> shape, std::mt19937_64& rng) {
  std::vector<std::byte> bytes(size_t(shape[0] * shape[1]));
  for (std::byte& b : bytes) b = std::byte(kE2m1Twice[rng() % 16]);
  return Tensor::from_bytes(DType::i8, std::move(shape), std::move(bytes));
}

inline double largest(DType dtype) { return dtype == DType::f8e4m3 ? 448 : dtype == DType::f8e5m2 ? 57344 : 1; }

// Every finite fp8 number, of both signs (0x80) or none, as often as any other.
inline Tensor fp8_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937_64& rng, unsigned sign = 0x80) {
  const int finite = dtype == DType::f8e4m3 ? 0x7f : 0x7c;
  std::vector<std::byte> bytes(size_t(shape[0] * shape[1]));
  for (std::byte& b : bytes) b = std::byte(rng() % finite | (rng() & sign));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

inline Tensor make_scales(const Case& c, int64_t n, std::mt19937_64& rng) {
  const Problem& p = c.problem;
  if (c.powers) return power_tensor(p.scale, {n, p.groups()}, rng);
  if (p.scale == DType::f8e4m3) return fp8_tensor(p.scale, {n, p.groups()}, rng, 0);  // its range is not long
  const bool powers = p.scale == DType::f8e8m0;                                       // none below 2^-kLargestPower
  const auto [low, high] = c.numbers == Numbers::tiny_scales
                               ? powers ? std::pair(1e-36, 1e-34) : std::pair(1e-40, 1e-38)
                           : c.numbers == Numbers::huge_scales ? std::pair(1e26, 1e28)
                                                               : std::pair(0.001, 0.03);
  return random_tensor(p.scale, {n, p.groups()}, rng, low, high, false);
}

inline void make_tensors(Case& c) {
  std::mt19937_64 rng(c.seed);
  const Problem& p = c.problem;
  const int64_t groups = p.groups();
  const bool ends = c.numbers == Numbers::ends;
  auto whole = [&](DType dtype, std::vector<int64_t> shape, double low, double high) {
    return ends ? ends_tensor(dtype, std::move(shape), rng, low, high)
                : random_tensor(dtype, std::move(shape), rng, low, high, true);
  };
  for (const Segment& s : p.segments) {
    SegmentTensors t;
    const WeightInfo& info = scheme_info(p.scheme).weight;
    const int zero_low = info.bits > 0 ? -(1 << (info.bits - 1)) : 0, zero_high = -1 - zero_low;
    if (ends && p.scheme == Scheme::f8)
      t.weight = ends_tensor(p.weight, {s.n, p.k}, rng, -largest(p.weight), largest(p.weight));
    else if (p.scheme == Scheme::f8 && !c.powers) t.weight = fp8_tensor(p.weight, {s.n, p.k}, rng);
    else if (p.scheme == Scheme::dense || p.scheme == Scheme::f8)
      t.weight =
          c.powers ? power_tensor(p.weight, {s.n, p.k}, rng) : random_tensor(p.weight, {s.n, p.k}, rng, -1, 1, false);
    else if (info.numbers && !ends) t.weight = e2m1_tensor({s.n, p.k}, rng);
    else t.weight = whole(DType::i8, {s.n, p.k}, info.low, info.high);
    if (scheme_info(p.scheme).has_scales) t.scales = make_scales(c, s.n, rng);
    if (s.has_offset)
      t.offsets = c.powers ? power_tensor(p.scale, {s.n, groups}, rng)
                           : random_tensor(p.scale, {s.n, groups}, rng, -0.2, 0.2, false);
    if (s.has_zero)
      t.zeros = ends ? ends_tensor(DType::i32, {s.n, groups}, rng, zero_low, zero_high)
                     : random_tensor(DType::i32, {s.n, groups}, rng, std::max(zero_low, -100), std::min(zero_high, 100),
                                     true);
    if (s.has_bias) t.bias = random_tensor(DType::f32, {s.n}, rng, -4, 4, c.powers);
    c.tensors.push_back(std::move(t));
  }
}

// One compiler run: the cases whose kernels become namespaces of one source.
struct CaseBuild {
  CompileJob job;
  std::vector<size_t> members;
  bool emulated = false;
};

inline void make_weights(Case& c) {
  c.tensors.clear();
  make_tensors(c);
  c.packed.resize(size_t(packed_bytes(c.problem, c.candidate.layout)));
  const Status packed = pack_weights(c.problem, c.candidate.layout, c.tensors, c.packed);
  REQUIRE_MESSAGE(packed.ok(), c.what);
}

// Of kernels that this host cannot run no more is asked than that they assemble.
inline CompileJob job_for(const Toolchain& cxx, Isa isa) {
  if (why_isa_unavailable(isa).empty()) return new_job(cxx, isa);
  return new_job(cxx, isa, isa, {"-O1"});
}

inline std::vector<CaseBuild> plan_builds(std::vector<Case>& cases, const Toolchain& cxx) {
  constexpr size_t kPerSource = 12;
  std::vector<CaseBuild> out;
  std::map<Isa, size_t> open;  // the build of this ISA that still takes members
  for (size_t i = 0; i < cases.size(); ++i) {
    auto source = render_gemm(cases[i].problem, cases[i].candidate, fmt::format("kernel_{}", i));
    if (!source.ok()) MESSAGE(source.error().to_string());
    REQUIRE(source.ok());
    cases[i].source = *source;
    const auto found = open.find(cases[i].isa);
    if (found == open.end() || out[found->second].members.size() == kPerSource) {
      open[cases[i].isa] = out.size();
      out.push_back({job_for(cxx, cases[i].isa), {}, false});
    }
    CaseBuild& build = out[open[cases[i].isa]];
    build.members.push_back(i);
    build.job.sources[0].text += fmt::format("namespace k{} {{\n{}\n}}\n", i, *source);
  }
  return out;
}

// AMX kernels are compiled for AMX, and where they cannot run once more with tiles emulated on the AVX-512 that they
// also use; or only that, where another test assembles the same tiles.
enum class AmxBuild { assembled_too, only_run };
inline void add_emulated(std::vector<CaseBuild>& builds, const std::vector<Case>& cases, const Toolchain& cxx,
                         AmxBuild amx) {
  if (!emulates_amx()) return;
  for (size_t b = 0, native = builds.size(); b < native; ++b) {
    if (cases[builds[b].members[0]].isa != Isa::amx) continue;
    CaseBuild emulated{new_emulated_job(cxx), builds[b].members, true};
    emulated.job.sources = builds[b].job.sources;
    if (amx == AmxBuild::only_run) builds[b] = std::move(emulated);
    else builds.push_back(std::move(emulated));
  }
}

inline void load_kernels(std::vector<Case>& cases, const CaseBuild& build, const std::string& bytes) {
  static int serial = 0;  // the loader takes a path it has seen for the module it knows
  const std::string path = fmt::format("/tmp/qcg_kernels_{}_{}.so", getpid(), serial++);
  std::ofstream(path, std::ios::binary) << bytes;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  REQUIRE_MESSAGE(module, dlerror());
  for (size_t i : build.members) {
    cases[i].kernel = static_cast<const qcg_kernel*>(dlsym(module, fmt::format("kernel_{}", i).c_str()));
    REQUIRE(cases[i].kernel != nullptr);
    cases[i].emulated = build.emulated;
  }
}

inline void build_cases(std::vector<Case>& cases, AmxBuild amx = AmxBuild::assembled_too) {
  for (Case& c : cases) make_weights(c);
  auto cxx = find_cxx({});
  REQUIRE_MESSAGE(cxx.ok(), "no compiler");
  std::vector<CaseBuild> builds = plan_builds(cases, *cxx);
  add_emulated(builds, cases, *cxx, amx);
  std::vector<CompileJob> jobs;
  for (const CaseBuild& build : builds) jobs.push_back(build.job);
  auto results = compile_all(*cxx, jobs);
  REQUIRE(results.ok());
  for (size_t b = 0; b < builds.size(); ++b) {
    if (!(*results)[b].ok()) MESSAGE((*results)[b].log.substr(0, 4000));
    REQUIRE((*results)[b].ok());
    // Where the host lacks this ISA, that it compiles is all that can be known here.
    const bool runs = builds[b].emulated || why_isa_unavailable(cases[builds[b].members[0]].isa).empty();
    if (runs) load_kernels(cases, builds[b], (*results)[b].bytes);
  }
}

}  // namespace qcg::test
